// The SDK of Anthropic for TypeScript against a running service.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { startNginx } from "../support/nginx.mjs";
import { startProxy } from "../support/proxy.mjs";
import { startService, until } from "../support/service.mjs";
import { SLOW, script } from "./script.mjs";

const TOOLSET = { type: "agent_toolset_20260401" };
const LOOKUP = {
  type: "custom",
  name: "lookup",
  description: "Looks up a word.",
  input_schema: { type: "object", properties: { word: { type: "string" } } },
};

const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

let service;
let client;
const clientOf = (url, rest = {}) => new Anthropic({ baseURL: `${url}/anthropic`, apiKey: service.key, ...rest });

before(async () => {
  service = await startService(script);
  client = clientOf(service.url);
});
after(() => service.stop());

const user = (text) => ({ type: "user.message", content: [{ type: "text", text }] });
const send = (session, ...events) => client.beta.sessions.events.send(session.id, { events });
const textOf = (events) =>
  events.flatMap((event) => (event.type === "agent.message" ? event.content.map((block) => block.text) : [])).join("");

async function start(tools = [], rest = {}) {
  const agent = await client.beta.agents.create({ name: "Desk", model: "simulator", tools });
  const environment = await client.beta.environments.create({ name: "quickstart", config: { type: "cloud" } });
  return await client.beta.sessions.create({ agent: agent.id, environment_id: environment.id, ...rest });
}

/** Reads a stream up to the next `session.status_idle`. */
async function turn(stream) {
  const events = [];
  for (;;) {
    const { value, done } = await stream.next();
    assert.ok(!done, "the stream ended");
    events.push(value);
    if (value.type === "session.status_idle") return events;
  }
}
const open = async (session, params = {}, from = client) =>
  (await from.beta.sessions.events.stream(session.id, params))[Symbol.asyncIterator]();

async function listed(session, params = {}, from = client) {
  const events = [];
  for await (const event of from.beta.sessions.events.list(session.id, { limit: 4, ...params })) events.push(event);
  return events;
}

test("quick start: agent, environment, session, message, stream until idle [text, history]", async () => {
  const agent = await client.beta.agents.create({
    name: "Coding Assistant",
    model: "simulator",
    system: "You are a helpful coding assistant.",
    tools: [TOOLSET],
  });
  assert.deepEqual([agent.type, agent.version, agent.name], ["agent", 1, "Coding Assistant"]);
  const environment = await client.beta.environments.create({
    name: "quickstart",
    config: { type: "cloud", networking: { type: "unrestricted" } },
  });
  const session = await client.beta.sessions.create({
    agent: { type: "agent", id: agent.id, version: agent.version },
    environment_id: environment.id,
    title: "Quickstart",
  });
  assert.deepEqual([session.status, session.title, session.agent.id], ["idle", "Quickstart", agent.id]);

  const stream = await client.beta.sessions.events.stream(session.id);
  const sent = await send(session, user("Hello"));
  assert.equal(sent.data[0].type, "user.message");
  const events = [];
  for await (const event of stream) {
    events.push(event);
    if (event.type === "session.status_idle") break;
  }
  assert.equal(textOf(events), "You said Hello.");
  assert.deepEqual(events.at(-1).stop_reason, { type: "end_turn" });
  assert.equal(events[0].id, sent.data[0].id);
  assert.deepEqual(await listed(session), events);

  const read = await client.beta.sessions.retrieve(session.id);
  assert.ok(read.usage.output_tokens > 0);
  const changed = await client.beta.sessions.update(session.id, { title: "Renamed", metadata: { team: "north" } });
  assert.deepEqual([changed.title, changed.metadata], ["Renamed", { team: "north" }]);
  const ids = [];
  for await (const one of client.beta.sessions.list({ agent_id: agent.id })) ids.push(one.id);
  assert.deepEqual(ids, [session.id]);
  assert.ok((await client.beta.sessions.archive(session.id)).archived_at);
  assert.deepEqual(await client.beta.sessions.delete(session.id), { type: "session_deleted", id: session.id });
  await assert.rejects(client.beta.sessions.retrieve(session.id), Anthropic.NotFoundError);
  assert.ok((await client.beta.agents.archive(agent.id)).archived_at);
  assert.equal((await client.beta.environments.delete(environment.id)).type, "environment_deleted");
});

test("previews are the text of the message", async () => {
  const session = await start();
  const stream = await open(session, { event_deltas: ["agent.message", "agent.thinking"] });
  await send(session, user("Be slow"));
  const events = await turn(stream);
  const deltas = events.filter((event) => event.type === "event_delta");
  assert.ok(deltas.length > 3);
  assert.equal(deltas.map((event) => event.delta.content.text).join(""), SLOW);
  assert.equal(textOf(events), SLOW);
  await stream.return();
});

test("a confirmation allows a call, and one denies it with a message [allow, deny]", async () => {
  const ask = { ...TOOLSET, configs: [{ name: "write", permission_policy: { type: "always_ask" } }] };
  for (const [result, deny_message] of [["allow"], ["deny", "Not today."]]) {
    const session = await start([ask]);
    const stream = await open(session);
    await send(session, user("Please write"));
    const asked = await turn(stream);
    const call = asked.find((event) => event.type === "agent.tool_use");
    assert.deepEqual([call.name, call.evaluated_permission], ["write", "ask"]);
    assert.deepEqual(asked.at(-1).stop_reason, { type: "requires_action", event_ids: [call.id] });
    const sent = await send(session, { type: "user.tool_confirmation", tool_use_id: call.id, result, deny_message });
    assert.deepEqual([sent.data[0].result, sent.data[0].deny_message], [result, deny_message]);
    const answered = await turn(stream);
    const outcome = answered.find((event) => event.type === "agent.tool_result");
    assert.equal(outcome.tool_use_id, call.id);
    assert.equal(outcome.is_error, result === "deny");
    if (deny_message) assert.match(JSON.stringify(outcome.content), /Not today/);
    await stream.return();
  }
});

test("a confirmation allows a call with another input [edited-input]", async () => {
  const ask = { ...TOOLSET, configs: [{ name: "write", permission_policy: { type: "always_ask" } }] };
  const session = await start([ask]);
  const stream = await open(session);
  await send(session, user("Please write"));
  const call = (await turn(stream)).find((event) => event.type === "agent.tool_use");
  const input = { file_path: "edited.txt", content: "hello" };
  const sent = await send(session, { type: "user.tool_confirmation", tool_use_id: call.id, result: "allow", input });
  assert.deepEqual(sent.data[0].input, input);
  const outcome = (await turn(stream)).find((event) => event.type === "agent.tool_result");
  assert.equal(outcome.is_error, false);
  assert.match(JSON.stringify(outcome.content), /edited\.txt/);
  await stream.return();
});

test("the toolset runs without a confirmation [tools]", async () => {
  const session = await start([TOOLSET]);
  const stream = await open(session);
  await send(session, user("Please write"));
  const events = await turn(stream);
  const call = events.find((event) => event.type === "agent.tool_use");
  assert.deepEqual([call.name, call.evaluated_permission], ["write", "allow"]);
  assert.equal(events.find((event) => event.type === "agent.tool_result").is_error, false);
  await stream.return();
});

test("a custom tool gets its result [client-tool]", async () => {
  const session = await start([LOOKUP]);
  const stream = await open(session);
  await send(session, user("Please look up a word"));
  const asked = await turn(stream);
  const call = asked.find((event) => event.type === "agent.custom_tool_use");
  assert.deepEqual([call.name, call.input], ["lookup", { word: "ledger" }]);
  const content = [{ type: "text", text: "a book" }];
  await send(session, { type: "user.custom_tool_result", custom_tool_use_id: call.id, content });
  assert.equal(textOf(await turn(stream)), "It means a book");
  await stream.return();
});

test("the tool runner of the SDK runs a custom tool", async () => {
  const session = await start([LOOKUP]);
  const words = [];
  const run = (input) => {
    words.push(input.word);
    return "a book";
  };
  const tool = { ...LOOKUP, run, parse: (input) => input };
  const runner = client.beta.sessions.events.toolRunner(session.id, { tools: [tool], maxIdleMs: 300 });
  const calls = [];
  const done = (async () => {
    for await (const call of runner) calls.push(call.name);
  })();
  await send(session, user("Please look up a word"));
  await done;
  assert.deepEqual([calls, words], [["lookup"], ["ledger"]]);
  assert.equal(textOf(await listed(session)), "It means a book");
});

test("an interrupt ends the turn [stop]", async () => {
  const session = await start();
  const stream = await open(session, { event_deltas: ["agent.message"] });
  await send(session, user("Be slow"));
  for (;;) {
    const { value } = await stream.next();
    if (value.type === "event_delta") break;
  }
  const sent = await send(session, { type: "user.interrupt" });
  assert.equal(sent.data[0].type, "user.interrupt");
  const events = await turn(stream);
  assert.equal(events.at(-1).stop_reason.type, "end_turn");
  assert.ok(textOf(events).length < SLOW.length);
  await send(session, user("Hello"));
  assert.equal(textOf(await turn(stream)), "You said Hello.");
  await stream.return();
});

test("a client that loses its connection reads everything once", async () => {
  const proxy = await startProxy(new URL(service.url));
  const far = clientOf(proxy.url, { maxRetries: 0 });
  const session = await start();
  const first = await open(session, {}, far);
  await send(session, user("Be slow"));
  const seen = new Map();
  const keep = (event) => {
    if (!seen.has(event.id)) seen.set(event.id, event);
  };
  keep((await first.next()).value);
  proxy.cut();
  await assert.rejects(async () => {
    for (;;) {
      const { value, done } = await first.next();
      assert.ok(!done, "a lost connection looks like the end of the stream");
      keep(value);
    }
  });
  // As the SDK does it: the stream first, then the list, without the events that are known.
  const second = await open(session, {}, far);
  for (const event of await listed(session)) keep(event);
  if (![...seen.values()].some((event) => event.type === "session.status_idle")) (await turn(second)).forEach(keep);
  const whole = await listed(session);
  assert.deepEqual([...seen.keys()].sort(), whole.map((event) => event.id).sort());
  assert.equal(textOf([...seen.values()]), SLOW);
  await second.return();
  proxy.close();
});

test("parallel calls, one of which fails [parallel-tools]", async () => {
  const session = await start([TOOLSET]);
  const stream = await open(session);
  await send(session, user("Use two tools"));
  const events = await turn(stream);
  const results = events.filter((event) => event.type === "agent.tool_result");
  const calls = events.filter((event) => event.type === "agent.tool_use");
  assert.deepEqual(results.map((event) => event.tool_use_id).sort(), calls.map((event) => event.id).sort());
  const failed = new Map(results.map((event) => [event.tool_use_id, event.is_error]));
  assert.deepEqual(calls.map((event) => [event.name, failed.get(event.id)]), [["glob", false], ["read", true]]);
  await stream.return();
});

test("an image [images]", async () => {
  const session = await start();
  const stream = await open(session);
  const source = { type: "base64", media_type: "image/png", data: PIXEL };
  const content = [{ type: "text", text: "What is in this image?" }, { type: "image", source }];
  await send(session, { type: "user.message", content });
  assert.equal(textOf(await turn(stream)), "A nice picture.");
  await stream.return();
});

test("two readers in the middle of an answer, one of which begins again [second-tab, reload]", async () => {
  const session = await start();
  const first = await open(session);
  await send(session, user("Be slow"));
  const head = [(await first.next()).value];
  const again = await client.beta.sessions.events.stream(session.id, {}, { headers: { "last-event-id": "0" } });
  const [rest, second] = await Promise.all([turn(first), turn(again[Symbol.asyncIterator]())]);
  assert.deepEqual([...head, ...rest], second);
  assert.equal(textOf(second), SLOW);
});

test("a stream is replayed after the last event id", async () => {
  const session = await start();
  await send(session, user("Hello"));
  await until(async () => (await listed(session)).some((event) => event.type === "session.status_idle"), "the answer");
  const whole = await listed(session);
  const replay = async (last) => {
    const stream = await client.beta.sessions.events.stream(session.id, {}, { headers: { "last-event-id": last } });
    return await turn(stream[Symbol.asyncIterator]());
  };
  assert.deepEqual(await replay("0"), whole);
  const later = await replay("2");
  assert.deepEqual(later, whole.slice(whole.length - later.length));
  assert.ok(later.length < whole.length);
});

test("a restart of the service in the middle of an answer [restart]", async () => {
  const own = await startService(script);
  const near = new Anthropic({ baseURL: `${own.url}/anthropic`, apiKey: own.key, maxRetries: 5 });
  try {
    const agent = await near.beta.agents.create({ name: "Desk", model: "simulator" });
    const session = await near.beta.sessions.create({ agent: agent.id, environment_id: "env_default" });
    const stream = (await near.beta.sessions.events.stream(session.id, { event_deltas: ["agent.message"] }))[Symbol.asyncIterator]();
    await near.beta.sessions.events.send(session.id, { events: [user("Be slow")] });
    for (;;) if ((await stream.next()).value.type === "event_delta") break;
    await own.restart();
    await assert.rejects(turn(stream));
    const again = (await near.beta.sessions.events.stream(session.id))[Symbol.asyncIterator]();
    const events = [];
    for await (const event of near.beta.sessions.events.list(session.id)) events.push(event);
    if (events.at(-1).type !== "session.status_idle") events.push(...(await turn(again)));
    assert.equal(textOf(events), SLOW);
    await again.return();
  } finally {
    await own.stop();
  }
});

test("errors have the classes of the SDK [error]", async () => {
  const missing = await client.beta.sessions.retrieve("ses_missing").catch((error) => error);
  assert.ok(missing instanceof Anthropic.NotFoundError);
  assert.deepEqual([missing.type, missing.errorCode], ["not_found_error", "session_not_found"]);
  assert.match(missing.requestID, /^req_/);
  const invalid = await client.beta.agents.create({ name: "Desk", model: "simulator", skills: [{}] }).catch((error) => error);
  assert.ok(invalid instanceof Anthropic.BadRequestError);
  assert.equal(invalid.details.errors[0].pointer, "/skills");
  const vaults = await client.beta.vaults.list().catch((error) => error);
  assert.ok(vaults instanceof Anthropic.NotFoundError);
  assert.match(vaults.message, /only agents, environments and sessions/);
  const stranger = new Anthropic({ baseURL: `${service.url}/anthropic`, apiKey: "sk-none", maxRetries: 0 });
  await assert.rejects(stranger.beta.sessions.list(), Anthropic.AuthenticationError);
  const session = await start();
  const stream = await open(session);
  await send(session, user("Please break"));
  const events = await turn(stream);
  const error = events.find((event) => event.type === "session.error").error;
  assert.deepEqual([error.type, error.retry_status], ["model_request_failed_error", { type: "exhausted" }]);
  await stream.return();
});

test("a network cut of 5 seconds in the middle of an answer [network-cut]", async (context) => {
  const proxy = await startProxy(new URL(service.url));
  context.after(proxy.close);
  const far = clientOf(proxy.url, { maxRetries: 0 });
  const session = await start();
  const stream = await open(session, { event_deltas: ["agent.message"] }, far);
  await send(session, user("Be slow"));
  for (;;) if ((await stream.next()).value.type === "event_delta") break;
  const outage = proxy.outage(5000);
  await assert.rejects(turn(stream));
  await assert.rejects(listed(session, {}, far));
  await outage;
  // The answer was complete before the network was back.
  assert.equal(textOf(await listed(session, {}, far)), SLOW);
});

test("behind nginx, under a prefix, with compressed streams [proxy]", async (context) => {
  const nginx = await startNginx(service);
  context.after(nginx.stop);
  const near = clientOf(nginx.url);
  const session = await start();
  const stream = await open(session, { event_deltas: ["agent.message"] }, near);
  await near.beta.sessions.events.send(session.id, { events: [user("Be slow")] });
  const events = await turn(stream);
  assert.equal(textOf(events), SLOW);
  const firstDelta = events.findIndex((event) => event.type === "event_delta");
  assert.ok(firstDelta >= 0 && firstDelta < events.findIndex((event) => event.type === "agent.message"));
  await stream.return();
});
