// The package `@ag-ui/client` against a running service.

import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { HttpAgent, buildResumeArray } from "@ag-ui/client";
import { startNginx } from "../support/nginx.mjs";
import { startProxy } from "../support/proxy.mjs";
import { startService, until } from "../support/service.mjs";
import { SLOW, script } from "./script.mjs";

const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

let service;
before(async () => {
  service = await startService(script);
  const agent = { tools: ["read_file", "write_file"], permission_mode: "default" };
  const headers = { ...service.headers, "content-type": "application/json" };
  const created = await fetch(`${service.url}/v1/agents/writer`, { method: "PUT", headers, body: JSON.stringify(agent) });
  assert.equal(created.status, 201, await created.text());
});
after(() => service.stop());

// The client reports every violation of the protocol as a warning.
const warnings = [];
const warn = console.warn;
beforeEach(() => {
  console.warn = (...parts) => warnings.push(parts.join(" "));
});
afterEach(() => {
  console.warn = warn;
  assert.deepEqual(warnings.splice(0), []);
});

/** Expects lost connections in a test: the client logs each, and leaves a rejected promise that it does not handle. */
function expectLosses(context) {
  const listeners = process.listeners("unhandledRejection");
  const { error } = console;
  process.removeAllListeners("unhandledRejection");
  process.on("unhandledRejection", (reason) => assert.match(reason.message, /terminated|fetch failed/));
  console.error = () => {};
  context.after(() => {
    process.removeAllListeners("unhandledRejection");
    for (const listener of listeners) process.on("unhandledRejection", listener);
    console.error = error;
  });
}

class Agent extends HttpAgent {
  connect(input) {
    const url = new URL(this.url);
    return new HttpAgent({ url: `${url.origin}${url.pathname}/connect`, headers: this.headers }).run(input);
  }
}
const agentOf = (threadId = crypto.randomUUID(), query = "", { url, headers } = service) =>
  new Agent({ url: `${url}/ag-ui${query}`, headers, threadId });
const say = async (agent, content, parameters, subscriber) => {
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content });
  return await agent.runAgent(parameters, subscriber);
};
const isBegun = (agent) => agent.messages.at(-1)?.content?.includes?.("word3");
const roles = (agent) => agent.messages.map((message) => message.role);
const lastText = (agent) => agent.messages.at(-1).content;
const runsOf = async (threadId) => {
  const get = async (path) => await (await fetch(`${service.url}/v1/${path}`, { headers: service.headers })).json();
  const [session] = (await get(`sessions?external_id=${threadId}`)).data;
  return session ? (await get(`sessions/${session.id}/runs`)).data : [];
};

test("text, a second turn, and the history [text, history]", async () => {
  const agent = agentOf();
  await say(agent, "Hello");
  assert.equal(lastText(agent), "You said Hello.");
  await say(agent, "Again");
  assert.deepEqual(roles(agent), ["user", "assistant", "user", "assistant"]);
  assert.equal((await runsOf(agent.threadId)).length, 2);
  const other = agentOf(agent.threadId);
  await other.connectAgent();
  assert.deepEqual(other.messages, agent.messages);
});

test("tools of the service and reasoning [tools, parallel-tools]", async () => {
  const agent = agentOf();
  await say(agent, "Use two tools");
  assert.deepEqual(roles(agent), ["user", "reasoning", "assistant", "tool", "tool", "assistant"]);
  assert.equal(agent.messages[2].toolCalls.length, 2);
  const other = agentOf(agent.threadId);
  await other.connectAgent();
  assert.deepEqual(roles(other), roles(agent));
  assert.deepEqual(other.messages[2], agent.messages[2]);
});

test("an approval and a denial [allow, deny]", async () => {
  for (const [approved, expected] of [[true, /It said: /], [false, /Not now/]]) {
    const agent = agentOf(undefined, "?agent=writer");
    await say(agent, "Please write");
    assert.equal(agent.pendingInterrupts.length, 1);
    const [interrupt] = agent.pendingInterrupts;
    assert.equal(interrupt.reason, "tool_call");
    // A second page finds the interrupt again.
    const other = agentOf(agent.threadId);
    await other.connectAgent();
    assert.deepEqual(other.pendingInterrupts.map((it) => it.id), [interrupt.id]);
    const payload = approved ? { approved } : { approved, message: "Not now." };
    const resume = buildResumeArray(agent.pendingInterrupts, { [interrupt.id]: { status: "resolved", payload } });
    await agent.runAgent({ resume });
    assert.match(lastText(agent), expected);
    assert.deepEqual(roles(agent), ["user", "assistant", "tool", "assistant"]);
    assert.equal((await runsOf(agent.threadId)).length, 1);
  }
});

test("an approval with another input [edited-input]", async () => {
  const agent = agentOf(undefined, "?agent=writer");
  await say(agent, "Please write");
  const [{ id }] = agent.pendingInterrupts;
  const payload = { approved: true, editedArgs: { path: "edited.txt", content: "hello" } };
  await agent.runAgent({ resume: buildResumeArray(agent.pendingInterrupts, { [id]: { status: "resolved", payload } }) });
  assert.match(lastText(agent), /edited\.txt/);
});

test("a tool of the client [client-tool]", async () => {
  const agent = agentOf();
  const tools = [{ name: "lookup", description: "Looks up a word.", parameters: { type: "object", properties: { word: { type: "string" } } } }];
  let pending;
  await say(agent, "Please look up a word", { tools }, { onRunFinishedEvent: (finished) => void (pending = finished.pendingToolCallIds) });
  assert.equal(pending.length, 1);
  agent.addMessage({ id: crypto.randomUUID(), role: "tool", toolCallId: pending[0], content: "a book" });
  await agent.runAgent({ tools });
  assert.equal(lastText(agent), "It means a book");
  assert.equal((await runsOf(agent.threadId)).length, 1);
});

test("an error in the middle, and another try [error]", async () => {
  const agent = agentOf();
  const errors = [];
  await say(agent, "Please break", {}, { onRunErrorEvent: ({ event }) => void errors.push(event.message) }).catch(() => {});
  assert.match(errors[0], /invalid_request_error/);
  await say(agent, "Hello");
  assert.equal(lastText(agent), "You said Hello.");
});

test("abort cancels the run [stop]", async () => {
  const agent = agentOf();
  const ended = say(agent, "Be slow").catch(() => {});
  await until(() => isBegun(agent), "the first words");
  agent.abortRun();
  await ended;
  await until(async () => (await runsOf(agent.threadId))[0].status === "cancelled", "the end of the run");
});

test("a second page follows the live run [reload, second-tab]", async () => {
  const first = agentOf();
  const ended = say(first, "Be slow");
  await until(() => isBegun(first), "the first words");
  const second = agentOf(first.threadId);
  await Promise.all([second.connectAgent(), ended]);
  assert.equal(lastText(second), SLOW);
  assert.deepEqual(second.messages, first.messages);
});

test("an image [images]", async () => {
  const agent = agentOf();
  const source = { type: "data", value: PIXEL, mimeType: "image/png" };
  await say(agent, [{ type: "text", text: "What is in this image?" }, { type: "image", source }]);
  assert.equal(lastText(agent), "A nice picture.");
});

/** Connects new pages until one has the complete answer. Returns its agent. */
const reload = async (threadId, from) => {
  let page;
  const isComplete = async () => {
    page = agentOf(threadId, "", from);
    return await page.connectAgent().then(() => page.messages.length === 2, () => false);
  };
  await until(isComplete, "the answer after the reload");
  return page;
};

test("a restart of the service in the middle of an answer [restart]", async (context) => {
  expectLosses(context);
  const own = await startService(script);
  try {
    const agent = agentOf(undefined, "?on_disconnect=continue", own);
    const broken = assert.rejects(say(agent, "Be slow"));
    await until(() => isBegun(agent), "the first words");
    await own.restart();
    await broken;
    const page = await reload(agent.threadId, own);
    assert.equal(lastText(page), SLOW);
    await say(page, "Hello");
    assert.equal(lastText(page), "You said Hello.");
  } finally {
    await own.stop();
  }
});

test("a network cut of 5 seconds in the middle of an answer [network-cut]", async (context) => {
  expectLosses(context);
  const proxy = await startProxy(new URL(service.url));
  context.after(proxy.close);
  const cut = { ...service, url: proxy.url };
  const agent = agentOf(undefined, "?on_disconnect=continue", cut);
  const broken = assert.rejects(say(agent, "Be slow"));
  await until(() => isBegun(agent), "the first words");
  const outage = proxy.outage(5000);
  await broken;
  await assert.rejects(agentOf(agent.threadId, "", cut).connectAgent());
  await outage;
  assert.equal(lastText(await reload(agent.threadId, cut)), SLOW);
  assert.equal((await runsOf(agent.threadId)).length, 1);
});

test("behind nginx, under a prefix, with compressed streams [proxy]", async (context) => {
  const nginx = await startNginx(service);
  context.after(nginx.stop);
  const first = agentOf(undefined, "", nginx);
  const ended = say(first, "Be slow");
  // The text arrives while it is written.
  await until(() => isBegun(first), "the first words");
  assert.ok(!lastText(first).includes("word39"));
  const second = agentOf(first.threadId, "", nginx);
  await Promise.all([second.connectAgent(), ended]);
  assert.deepEqual([lastText(first), lastText(second)], [SLOW, SLOW]);
});
