/** The client against a running service: TWOSTEP_URL and TWOSTEP_KEY name it. */

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type Conversation, type CreateSession, empty, type Item, type Options, ProblemError, reduce, type Run,
  type StreamEvent, Twostep,
} from "@twostep/client";
import { startProxy } from "./proxy.js";

const baseUrl = process.env["TWOSTEP_URL"] ?? "http://127.0.0.1:8080";
const headers = { authorization: `Bearer ${process.env["TWOSTEP_KEY"] ?? ""}` };
const connect = (options: Partial<Options> = {}) => new Twostep({ baseUrl, headers, ...options });
const client = connect();

const READ_AND_WRITE: CreateSession = { tools: ["read_file", "write_file"], permission_mode: "default" };
const LOOKUP: CreateSession = {
  tools: [{ name: "lookup", description: "Looks up a word.", input_schema: { type: "object" }, client: true }],
};

/** The conversation after a run has settled or waits for the client. */
async function fold(run: Run, before: Conversation = empty): Promise<Conversation> {
  let conversation = before;
  for await (const event of client.runEvents(run.session_id, run.id, { after: before.seq })) {
    conversation = reduce(conversation, event);
  }
  return conversation;
}

const tools = (conversation: Conversation) => conversation.items.filter((item) => item.kind === "tool");
const texts = (items: Item[]) => items.flatMap((item) => (item.kind === "text" ? [item.text] : []));

test("a live conversation equals its replay", async () => {
  const session = await client.createSession({ tools: ["get_time"] });
  const live = await fold(await client.send(session.id, "What time is it in Europe/Oslo?"));
  assert.equal(live.status, "idle");
  assert.deepEqual(live.items.map((item) => item.kind), ["user", "text", "tool", "text"]);
  assert.equal(tools(live)[0]?.state, "done");
  assert.ok(live.items.every((item) => !("isPreview" in item && item.isPreview)));

  const until = new AbortController();
  let replayed = empty;
  for await (const event of client.events(session.id, { signal: until.signal, previews: false })) {
    replayed = reduce(replayed, event);
    if (replayed.seq === live.seq) until.abort();
  }
  assert.deepEqual(replayed, live);
});

test("a message that is sent twice with one key starts one run", async () => {
  const session = await client.createSession();
  const runs = await Promise.all([1, 2].map(() => client.send(session.id, "Hello", { key: "once" })));
  assert.equal(runs[0]?.id, runs[1]?.id);
  await assert.rejects(client.send(session.id, "Other", { key: "once" }), { code: "idempotency_key_reused" });
});

test("an allowed call runs with the edited input", async () => {
  const session = await client.createSession(READ_AND_WRITE);
  const run = await client.send(session.id, "Write hello to notes.txt");
  const waiting = await fold(run);
  assert.equal(waiting.status, "requires_action");
  assert.equal(tools(waiting)[0]?.state, "awaiting_approval");
  const [call] = await client.approvals(session.id);
  assert.ok(call);
  await client.approve(session.id, call.tool_use_id, { input: { ...call.input, content: "edited" } });
  const done = await fold(run, waiting);
  assert.deepEqual([done.status, tools(done)[0]?.state], ["idle", "done"]);
  assert.equal(tools(done)[0]?.input?.["content"], "edited");
});

test("a denied call has no effect", async () => {
  const session = await client.createSession(READ_AND_WRITE);
  const run = await client.send(session.id, "Write hello to notes.txt");
  const waiting = await fold(run);
  for (const call of await client.approvals(session.id)) await client.deny(session.id, call.tool_use_id, "No.");
  const done = await fold(run, waiting);
  assert.deepEqual([done.status, tools(done)[0]?.state], ["idle", "denied"]);
});

test("the client answers the calls of its own tools", async () => {
  const session = await client.createSession(LOOKUP);
  const run = await client.send(session.id, 'Call lookup with {"word": "ledger"}');
  const waiting = await fold(run);
  const [call] = tools(waiting);
  assert.equal(call?.state, "awaiting_client");
  assert.deepEqual(call.input, { word: "ledger" });
  await client.answer(session.id, [{ tool_use_id: call.id, content: "a book of accounts" }]);
  const done = await fold(run, waiting);
  assert.equal(tools(done)[0]?.state, "done");
  assert.match(texts(done.items).join(""), /a book of accounts/);
});

test("a fork continues before an edited message, with the conversation until then", async () => {
  const session = await client.createSession({ tools: ["get_time"] });
  const first = await fold(await client.send(session.id, "What time is it in Europe/Oslo?"));
  const second = await fold(await client.send(session.id, "Hello"), first);
  const edited = second.items.findLast((item) => item.kind === "user");
  assert.ok(edited);
  const fork = await client.fork(session.id, { before: edited.id });
  const shared = await client.history(fork.id);
  const comparable = (items: Item[]) => items.map((item) => ({ ...item, id: "", durationMs: 0, inputText: "" }));
  assert.deepEqual(comparable(shared.items), comparable(first.items));
  const sent = await client.send(fork.id, "Good morning");
  const continued = await fold(sent, shared);
  assert.equal(continued.items.length, first.items.length + 2);
  assert.equal((await client.history(session.id)).items.length, 0);
});

test("the id of a message makes it safe to repeat, and is the id of its item", async () => {
  const session = await client.createSession();
  const runs = await Promise.all([1, 2].map(() => client.send(session.id, { id: "mine", content: "Hello" })));
  assert.equal(runs[0]?.id, runs[1]?.id);
  assert.equal((await fold(runs[0] as Run)).items[0]?.id, "mine");
});

test("a stream that is silent although its connection is open is replaced", async (context) => {
  const session = await client.createSession();
  const requests: URL[] = [];
  const silent: typeof fetch = async (input, init) => {
    requests.push(new URL(String(input)));
    if (requests.length > 1) return fetch(input, init);
    queueMicrotask(() => setImmediate(() => context.mock.timers.tick(40_000)));
    return new Response(new ReadableStream(), { headers: { "content-type": "text/event-stream" } });
  };
  await client.send(session.id, "Hello");
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const until = new AbortController();
  const onConnection = ({ state }: { state: string }) => {
    if (state === "waiting") setImmediate(() => context.mock.timers.tick(10_000));
  };
  for await (const event of connect({ fetch: silent }).events(session.id, { signal: until.signal, onConnection })) {
    if (event.type === "user.message") until.abort();
  }
  assert.equal(requests.length, 2);
});

test("a silent session whose connection is cut again and again is followed without long pauses", async (context) => {
  const tries: number[] = [];
  const until = new AbortController();
  // Each connection is open for ten seconds, without events.
  const cut: typeof fetch = async () => {
    const pull = (controller: ReadableStreamDefaultController) => {
      context.mock.timers.tick(10_000);
      controller.close();
    };
    return new Response(new ReadableStream({ pull }, { highWaterMark: 0 }));
  };
  context.mock.timers.enable({ apis: ["setTimeout", "Date"] });
  const onConnection = ({ state, failures }: { state: string; failures: number }) => {
    if (state !== "waiting") return;
    tries.push(failures);
    if (tries.length === 4) return until.abort();
    setImmediate(() => context.mock.timers.tick(500));
  };
  for await (const _ of connect({ fetch: cut }).events("ses_1", { signal: until.signal, onConnection })) assert.fail();
  assert.deepEqual(tries, [1, 1, 1, 1]);
});

test("a stream of a run that a proxy ends early is continued", async () => {
  const session = await client.createSession();
  const run = await client.send(session.id, "Hello");
  let tries = 0;
  const ended: typeof fetch = async (input, init) => {
    tries += 1;
    return tries === 1 ? new Response("retry: 2000\n\n") : fetch(input, init);
  };
  const types: string[] = [];
  for await (const event of connect({ fetch: ended }).runEvents(session.id, run.id)) types.push(event.type);
  assert.deepEqual([tries, types.at(-1)], [2, "session.status_idle"]);
});

test("a stream delivers every event once, although its connections are cut", async () => {
  const proxy = await startProxy(new URL(baseUrl), 2000);
  const through = connect({ baseUrl: proxy.url });
  const session = await client.createSession({ tools: ["get_time"] });
  const until = new AbortController();
  const numbers: number[] = [];
  const onConnection = () => assert.ok(proxy.connections() < 20);
  const asked = client.send(session.id, "What time is it in Europe/Oslo?").then((run) => fold(run));
  for await (const event of through.events(session.id, { signal: until.signal, onConnection })) {
    if ("seq" in event) numbers.push(event.seq);
    if (event.type === "session.status_idle") until.abort();
  }
  proxy.close();
  await asked;
  assert.deepEqual(numbers, Array.from(numbers, (_, index) => index + 1));
  assert.ok(numbers.length >= 9 && proxy.connections() > 2, `${numbers} ${proxy.connections()}`);
});

test("the changes of the list of sessions", async () => {
  const until = new AbortController();
  const changes: string[] = [];
  const onConnection = ({ state }: { state: string }) => {
    if (state === "open") void client.createSession({ title: "Listed" }).then(({ id }) => client.send(id, "Hello"));
  };
  for await (const { session, changes: kinds } of client.sessionChanges({ signal: until.signal, onConnection })) {
    if (session?.title !== "Listed") continue;
    changes.push(...kinds);
    if (kinds.includes("finished")) until.abort();
  }
  assert.equal(changes[0], "created");
});

test("a file is uploaded, and a message refers to it", async () => {
  const session = await client.createSession();
  const text = new File(["A ledger is a book of accounts."], "ledger.txt", { type: "text/plain" });
  const { id, media_type, name } = await client.upload(session.id, text);
  assert.deepEqual([media_type, name], ["text/plain", "ledger.txt"]);
  const source = { type: "file" as const, file_id: id };
  const content = [{ type: "document" as const, source }, { type: "text" as const, text: "Hello" }];
  await fold(await client.send(session.id, { content }));
  const [first] = (await client.messages(session.id)).data;
  assert.deepEqual(first?.message.content[0]?.["source"], source);
});

test("a stopped run is retried", async () => {
  const session = await client.createSession(READ_AND_WRITE);
  const run = await client.send(session.id, "Write hello to notes.txt");
  const waiting = await fold(run);
  await client.stop(session.id, run.id);
  const stopped = await fold(run, waiting);
  const again = await client.retry(session.id, run.id);
  assert.equal((await fold(again, stopped)).status, "requires_action");
});

test("a stopped run keeps the conversation valid", async () => {
  const session = await client.createSession(READ_AND_WRITE);
  const run = await client.send(session.id, "Write hello to notes.txt");
  const waiting = await fold(run);
  await client.stop(session.id, run.id);
  const stopped = await fold(run, waiting);
  assert.equal(stopped.status, "idle");
  assert.equal(stopped.stopReason?.type, "cancelled");
  const next = await fold(await client.send(session.id, "Hello"), stopped);
  assert.equal(next.stopReason?.type, "end_turn");
});

test("errors have the status, the code and the message of the service", async () => {
  const error = await client.createSession({ title: "x".repeat(501) }).catch((error: unknown) => error);
  assert.ok(error instanceof ProblemError);
  assert.deepEqual([error.status, error.code, error.isTemporary], [422, "validation_failed", false]);
  assert.equal(error.problem.errors?.[0]?.pointer, "/title");
  await client.deleteSession("ses_00000000000070008000000000000000");
});

test("headers are asked for again after 401, once", async () => {
  const reasons: (string | undefined)[] = [];
  const renewing = connect({
    headers: (reason) => {
      reasons.push(reason);
      return reason === undefined ? { authorization: "Bearer old" } : headers;
    },
  });
  if (process.env["TWOSTEP_KEY"] === undefined) return;
  await renewing.createSession();
  assert.deepEqual(reasons, [undefined, "unauthenticated"]);
  await assert.rejects(connect({ headers: () => ({ authorization: "Bearer old" }) }).sessions(), { status: 401 });
});

test("a request is repeated after a temporary failure, with the same key", async () => {
  const keys: (string | null)[] = [];
  const failing: typeof fetch = async (input, init) => {
    keys.push(new Headers(init?.headers).get("idempotency-key"));
    const response = await fetch(input, init);
    // The reply of the first try is lost.
    if (keys.length === 1) throw new TypeError("fetch failed");
    return response;
  };
  const session = await connect({ fetch: failing }).createSession({ title: "Once" });
  assert.equal(keys.length, 2);
  assert.equal(keys[0], keys[1]);
  assert.equal(session.title, "Once");
});

test("previews of a discarded reply disappear", () => {
  const ids = { session_id: "ses_1", run_id: "run_1" };
  const at = (seq: number) => ({ ...ids, id: `evt_${seq}`, seq, created_at: "2026-01-01T00:00:00Z" });
  const stream = [
    { type: "user.message", ...at(1), content: [{ type: "text", text: "Hi" }] },
    { type: "session.status_running", ...at(2), attempt: 1 },
    { type: "event_start", ...ids, event: { type: "agent.message", id: "evt_a" } },
    { type: "event_delta", ...ids, event_id: "evt_a", delta: { type: "content_delta", index: 0, content: { type: "text", text: "Hel" } } },
    { type: "session.status_rescheduled", ...at(3), attempt: 1, retry_at: "2026-01-01T00:00:01Z" },
  ] as StreamEvent[];
  const states = stream.map(((now) => (event: StreamEvent) => (now = reduce(now, event)))(empty));
  assert.deepEqual(states.map((state) => texts(state.items)), [[], [], [""], ["Hel"], []]);
  assert.deepEqual(states.map((state) => state.status), ["queued", "running", "running", "running", "retrying"]);
});
