// The package `@ag-ui/client` against a running service.

import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { HttpAgent, buildResumeArray } from "@ag-ui/client";
import { startService, until } from "../support/service.mjs";
import { SLOW, script } from "./script.mjs";

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

class Agent extends HttpAgent {
  connect(input) {
    return new HttpAgent({ url: `${service.url}/ag-ui/connect`, headers: service.headers }).run(input);
  }
}
const agentOf = (threadId = crypto.randomUUID(), query = "") =>
  new Agent({ url: `${service.url}/ag-ui${query}`, headers: service.headers, threadId });
const say = async (agent, content, parameters, subscriber) => {
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content });
  return await agent.runAgent(parameters, subscriber);
};
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
  await until(() => agent.messages.at(-1)?.content?.includes?.("word3"), "the first words");
  agent.abortRun();
  await ended;
  await until(async () => (await runsOf(agent.threadId))[0].status === "cancelled", "the end of the run");
});

test("a second page follows the live run [reload, second-tab]", async () => {
  const first = agentOf();
  const ended = say(first, "Be slow");
  await until(() => first.messages.at(-1)?.content?.includes?.("word3"), "the first words");
  const second = agentOf(first.threadId);
  await Promise.all([second.connectAgent(), ended]);
  assert.equal(lastText(second), SLOW);
  assert.deepEqual(second.messages, first.messages);
});
