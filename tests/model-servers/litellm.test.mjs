// Conversations with LiteLLM's proxy as the model server, an independent implementation of both protocols. It
// asks the simulator, which refuses what the real APIs refuse: an answer shows that each request of the service
// was understood and translated, and was valid.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { startService, until } from "../front-ends/support/service.mjs";

const folder = mkdtempSync(join(tmpdir(), "twostep-litellm-"));
const key = `sk-${randomBytes(24).toString("hex")}`;
const script = {
  conversations: [
    {
      when: "what time",
      replies: [
        {
          content: [
            { type: "thinking", thinking: "Two zones." },
            { type: "text", text: "I look." },
            { type: "tool_use", name: "get_time", input: { timezone: "Europe/Oslo" } },
            { type: "tool_use", name: "get_time", input: { timezone: "Asia/Tokyo" } },
          ],
        },
        { content: [{ type: "text", text: "Oslo: {{result.0}} Tokyo: {{result.1}}" }] },
      ],
    },
    {
      when: "a wrong zone",
      replies: [
        { content: [{ type: "tool_use", name: "get_time", input: { timezone: "Nowhere/Land" } }] },
        { content: [{ type: "text", text: "That failed: {{result.0}}" }] },
      ],
    },
    {
      when: "too busy",
      replies: [{ content: [{ type: "text", text: "Now." }], fail_first: [{ status: 529 }, { status: 503 }] }],
    },
    { when: "cut off", replies: [{ content: [{ type: "text", text: "This is" }], stop_reason: "max_tokens" }] },
    { when: "the picture", replies: [{ content: [{ type: "text", text: "I see it." }] }] },
    { when: "wrong key", replies: [{ status: 401 }] },
    { replies: [{ content: [{ type: "text", text: "You said: {{user}}" }] }] },
  ],
};
/** A picture of one red pixel. */
const picture =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";

const processes = [];
let proxy;

/** A free port of this machine: LiteLLM does not print the one that it has chosen. */
function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** Starts a program, and waits until its output has the text. */
function start(program, args, env, wanted) {
  const child = spawn(program, args, { env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
  processes.push(child);
  let output = "";
  return new Promise((resolve, reject) => {
    child.on("exit", () => reject(new Error(`${program} ended: ${output.slice(-3000)}`)));
    child.on("error", reject);
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (text) => {
        output += text;
        const found = wanted.exec(output);
        if (found) resolve(found[0]);
      });
    }
  });
}

before(
  async () => {
    const file = join(folder, "script.json");
    writeFileSync(file, JSON.stringify(script));
    const args = ["simulator", "--bind", "127.0.0.1:0", "--script", file];
    const simulator = await start(process.env.TWOSTEP_PROGRAM, args, {}, /http:\/\/127\.0\.0\.1:\d+/);
    const port = await freePort();
    const env = {
      SIMULATOR: simulator,
      SIMULATOR_CHAT: `${simulator}/v1`,
      LITELLM_MASTER_KEY: key,
      LITELLM_LOCAL_MODEL_COST_MAP: "True",
      // LiteLLM would store its own tables there.
      DATABASE_URL: undefined,
    };
    const config = join(import.meta.dirname, "config.yaml");
    const litellm = ["--config", config, "--host", "127.0.0.1", "--port", String(port)];
    await start(process.env.TWOSTEP_TEST_LITELLM, litellm, env, /startup complete/);
    proxy = `http://127.0.0.1:${port}`;
  },
  { timeout: 120_000 },
);

after(() => {
  for (const child of processes) child.kill("SIGTERM");
  rmSync(folder, { recursive: true, force: true });
});

const protocols = {
  "the Messages API": (model) => ({
    // LiteLLM sends the members of the Messages API that mark the cache to all servers.
    options: ["--anthropic-base-url", proxy, "--model", model, "--prompt-cache", String(model !== "chat")],
    env: { ANTHROPIC_API_KEY: key },
  }),
  "Chat Completions": (model) => ({
    options: ["--provider", "openai", "--openai-base-url", `${proxy}/v1`, "--model", model],
    env: { OPENAI_API_KEY: key },
  }),
};

for (const [protocol, server] of Object.entries(protocols)) {
  for (const model of ["messages", "chat"]) {
    describe(`LiteLLM serves ${protocol} and asks the simulator in ${model === "chat" ? "Chat Completions" : "the Messages API"}`, () => {
      let service;
      before(async () => {
        const { options, env } = server(model);
        service = await startService(undefined, options, env);
      });
      after(() => service.stop());

      const request = async (path, body) => {
        const response = await fetch(`${service.url}/v1${path}`, {
          method: body ? "POST" : "GET",
          headers: { ...service.headers, "content-type": "application/json" },
          ...(body && { body: JSON.stringify(body) }),
        });
        const text = await response.text();
        assert.ok(response.ok, `${response.status} ${text}`);
        return JSON.parse(text);
      };
      const session = async () => (await request("/sessions", {})).id;
      const ask = async (id, content) => {
        const { id: run } = await request(`/sessions/${id}/messages`, { content });
        return until(async () => {
          const found = await request(`/sessions/${id}/runs/${run}`);
          return ["completed", "failed", "cancelled"].includes(found.status) && found;
        }, "the run has settled");
      };
      const history = async (id) => (await request(`/sessions/${id}/messages`)).data.map(({ message }) => message);
      const answer = async (id) =>
        (await history(id))
          .at(-1)
          .content.filter((block) => block.type === "text")
          .map((block) => block.text)
          .join("");

      test("a text is answered, and the conversation goes on", async () => {
        const id = await session();
        for (const text of ["Good morning", "And again"]) {
          const run = await ask(id, text);
          assert.equal(run.status, "completed", JSON.stringify(run));
          assert.equal(await answer(id), `You said: ${text}`);
          assert.ok(run.usage.input_tokens > 0 && run.usage.output_tokens > 0, JSON.stringify(run.usage));
        }
      });

      test("results of two calls go back to the model, with its thinking", async () => {
        const id = await session();
        const run = await ask(id, "What time is it?");
        assert.equal(run.status, "completed", JSON.stringify(run));
        assert.match(await answer(id), /^Oslo: .*Oslo.* Tokyo: .*Tokyo/s);
        const reply = (await history(id))[1].content;
        assert.deepEqual(reply.filter((block) => block.type === "thinking").map((block) => block.thinking), ["Two zones."]);
        assert.equal(reply.filter((block) => block.type === "tool_use").length, 2);
        assert.equal((await ask(id, "Thank you")).status, "completed");
      });

      test("a failed call is reported to the model", async () => {
        const id = await session();
        const run = await ask(id, "Use a wrong zone");
        assert.equal(run.status, "completed", JSON.stringify(run));
        assert.match(await answer(id), /^That failed: .*Nowhere\/Land/s);
      });

      test("requests that an overloaded server refused are sent again", async () => {
        const id = await session();
        const run = await ask(id, "You are too busy");
        assert.equal(run.status, "completed", JSON.stringify(run));
        assert.equal(await answer(id), "Now.");
      });

      test("an answer that is cut off says so", async () => {
        const run = await ask(await session(), "This is cut off");
        assert.equal(run.status, "completed", JSON.stringify(run));
        assert.equal(run.stop_reason.type, "max_tokens");
      });

      test("pictures reach the model", async () => {
        const source = { type: "base64", media_type: "image/png", data: picture };
        const id = await session();
        const run = await ask(id, [{ type: "image", source }, { type: "text", text: "Look at the picture" }]);
        assert.equal(run.status, "completed", JSON.stringify(run));
        assert.equal(await answer(id), "I see it.");
      });

      test("a refused key fails the run with the message of the server", async () => {
        const run = await ask(await session(), "Use the wrong key");
        assert.equal(run.status, "failed", JSON.stringify(run));
        assert.equal(run.error.reason, "authentication_error", JSON.stringify(run.error));
      });
    });
  }
}
