// The package @twostep/client in Node, against a running service.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { empty, reduce, Twostep } from "@twostep/client";
import { SLOW, script } from "../ai-sdk/script.mjs";
import { startNginx } from "../support/nginx.mjs";
import { startProxy } from "../support/proxy.mjs";
import { startService, until } from "../support/service.mjs";

const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const LOOKUP = { name: "lookup", description: "Looks up a word.", input_schema: { type: "object" }, client: true };
const SESSION = { tools: ["read_file", "write_file", "get_time", LOOKUP], permission_mode: "default" };

let service;
const readers = [];
before(async () => {
  service = await startService(script);
});
after(async () => {
  for (const { close } of readers) close();
  await service.stop();
});

const connect = (at = service, url = at.url) => new Twostep({ baseUrl: url, headers: at.headers });

/** A reader of a session, as a page is one: `now` is the conversation. `close` ends the stream. */
async function follow(client, id) {
  const end = new AbortController();
  const reader = { client, id, now: await client.history(id), close: () => end.abort() };
  reader.ended = (async () => {
    for await (const event of client.events(id, { after: reader.now.seq, signal: end.signal })) reader.now = reduce(reader.now, event);
  })();
  readers.push(reader);
  return reader;
}

async function open(client = connect()) {
  return follow(client, (await client.createSession(SESSION)).id);
}

const texts = ({ now }) => now.items.flatMap((item) => (item.kind === "text" ? [item.text] : []));
const tools = ({ now }) => now.items.filter((item) => item.kind === "tool");
const settled = (reader, status = "idle") => until(() => reader.now.status === status, status);
async function say(reader, content, status) {
  const run = await reader.client.send(reader.id, content);
  await until(() => reader.now.items.some((item) => item.runId === run.id), "the message");
  await settled(reader, status);
}
const word = (reader, word) => until(() => texts(reader).join("").includes(word), word);

/** The conversation equals its replay. */
async function close(reader) {
  const replay = await follow(connect(), reader.id);
  await until(() => replay.now.seq >= reader.now.seq, "the replay");
  replay.close();
  reader.close();
  await Promise.all([replay.ended, reader.ended]);
  assert.deepEqual(replay.now, reader.now);
}

test("text, and the replay of each conversation [text, history]", async () => {
  const reader = await open();
  await say(reader, "Hello");
  await say(reader, "Again");
  assert.deepEqual(texts(reader), ["You said Hello.", "You said Again."]);
  assert.ok(reader.now.usage.output_tokens > 0);
  await close(reader);
});

test("parallel tools, one of which fails, and thinking [tools, parallel-tools]", async () => {
  const reader = await open();
  await say(reader, "Use two tools");
  assert.deepEqual(reader.now.items.map(({ kind }) => kind), ["user", "thinking", "text", "tool", "tool", "text"]);
  assert.deepEqual(tools(reader).map(({ state }) => state), ["done", "failed"]);
  await close(reader);
});

/** A session whose call of write_file waits. */
async function asked() {
  const reader = await open();
  await say(reader, "Please write", "requires_action");
  const [call] = tools(reader);
  assert.equal(call.state, "awaiting_approval");
  return { reader, call };
}

test("an allowed call [allow]", async () => {
  const { reader, call } = await asked();
  await reader.client.approve(reader.id, call.id);
  await settled(reader);
  assert.equal(tools(reader)[0].state, "done");
  await close(reader);
});

test("a denied call [deny]", async () => {
  const { reader, call } = await asked();
  await reader.client.deny(reader.id, call.id, "Not now.");
  await settled(reader);
  assert.equal(tools(reader)[0].state, "denied");
  assert.match(texts(reader).at(-1), /Not now/);
  await close(reader);
});

test("a call that is allowed with another input [edited-input]", async () => {
  const { reader, call } = await asked();
  const input = { path: "b.txt", content: "edited" };
  await reader.client.approve(reader.id, call.id, { input });
  await settled(reader);
  assert.deepEqual(tools(reader)[0].input, input);
  await close(reader);
});

test("a tool of the client [client-tool]", async () => {
  const reader = await open();
  await say(reader, "Please look up a word", "requires_action");
  const [call] = tools(reader);
  assert.deepEqual([call.state, call.input], ["awaiting_client", { word: "ledger" }]);
  await reader.client.answer(reader.id, [{ tool_use_id: call.id, content: "a book" }]);
  await settled(reader);
  assert.equal(texts(reader).at(-1), "It means a book");
  await close(reader);
});

test("an error in the middle, and another message [error]", async () => {
  const reader = await open();
  await say(reader, "Please break");
  assert.match(reader.now.items.find(({ kind }) => kind === "error").message, /invalid_request_error/);
  await say(reader, "Hello");
  assert.equal(texts(reader).at(-1), "You said Hello.");
  await close(reader);
});

test("stop keeps the text that was written [stop]", async () => {
  const reader = await open();
  const run = await reader.client.send(reader.id, "Be slow");
  await word(reader, "word3");
  await reader.client.stop(reader.id, run.id);
  await settled(reader);
  const reply = reader.now.items.at(-1);
  assert.deepEqual([reader.now.stopReason.type, reply.isInterrupted], ["cancelled", true]);
  assert.ok(SLOW.startsWith(reply.text) && reply.text.length < SLOW.length);
  await close(reader);
});

test("a reader that begins in the middle, and a second one [reload, second-tab]", async () => {
  const reader = await open();
  await reader.client.send(reader.id, "Be slow");
  await word(reader, "word5");
  const second = await follow(connect(), reader.id);
  await word(second, "word5");
  assert.equal(second.now.status, "running");
  await Promise.all([settled(reader), settled(second)]);
  assert.deepEqual(second.now, reader.now);
  assert.deepEqual(texts(second), [SLOW]);
  await say(second, "Hello");
  await until(() => reader.now.seq === second.now.seq, "the message of the second reader");
  second.close();
  await close(reader);
});

test("a restart of the service in the middle of an answer [restart]", async () => {
  const own = await startService(script);
  try {
    const reader = await open(connect(own));
    await reader.client.send(reader.id, "Be slow");
    await word(reader, "word5");
    await own.restart();
    await say(reader, "Hello");
    assert.deepEqual(texts(reader), [SLOW, "You said Hello."]);
    reader.close();
    await reader.ended;
  } finally {
    await own.stop();
  }
});

test("a network cut of 5 seconds, in which a message is sent [network-cut]", async (context) => {
  const proxy = await startProxy(new URL(service.url));
  context.after(proxy.close);
  const reader = await open(connect(service, proxy.url));
  await reader.client.send(reader.id, "Be slow");
  await word(reader, "word5");
  const outage = proxy.outage(5000);
  const sent = say(reader, "Hello");
  await outage;
  await sent;
  assert.deepEqual(texts(reader), [SLOW, "You said Hello."]);
  await close(reader);
});

test("behind nginx, under a prefix, with compressed streams [proxy]", async (context) => {
  const nginx = await startNginx(service);
  context.after(nginx.stop);
  const encodings = new Set();
  const observed = async (url, init) => {
    const response = await fetch(url, init);
    if (response.headers.get("content-type") === "text/event-stream") encodings.add(response.headers.get("content-encoding"));
    return response;
  };
  const reader = await open(new Twostep({ baseUrl: nginx.url, headers: nginx.headers, fetch: observed }));
  await reader.client.send(reader.id, "Be slow");
  // The text arrives while it is written.
  await word(reader, "word5");
  assert.ok(!texts(reader).join("").includes("word39"));
  await settled(reader);
  assert.deepEqual(texts(reader), [SLOW]);
  assert.deepEqual([...encodings], ["gzip"]);
  await close(reader);
});

test("an edited message, and a regenerated answer, continue in forks [edit, regenerate]", async () => {
  const reader = await open();
  await say(reader, "One");
  await say(reader, "Two");
  const edited = reader.now.items.findLast(({ kind }) => kind === "user");
  for (const content of ["Three", "Two"]) {
    const { id } = await reader.client.fork(reader.id, { before: edited.id });
    const fork = await follow(reader.client, id);
    await say(fork, content);
    assert.deepEqual(texts(fork), ["You said One.", `You said ${content}.`]);
    await close(fork);
  }
  await close(reader);
});

test("an image [images]", async () => {
  const reader = await open();
  const image = { type: "image", source: { type: "base64", media_type: "image/png", data: PIXEL } };
  await say(reader, { content: [{ type: "text", text: "Which image?" }, image] });
  assert.deepEqual(texts(reader), ["A nice picture."]);
  const { data } = await reader.client.messages(reader.id);
  assert.equal(data[0].message.content[1].source.data, PIXEL);
  await close(reader);
});
