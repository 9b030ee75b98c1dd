// Each example in Chromium, started as the documentation says, against a service as `make run` starts it: without keys.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { after, afterEach, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { startBrowser } from "../../tests/browser/browser.mjs";
import { startService } from "../../tests/front-ends/support/service.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const says = (...content) => ({ content });
const text = (text) => ({ type: "text", text });
const script = {
  conversations: [
    {
      when: "write",
      replies: [
        says(text("I will write."), { type: "tool_use", name: "write_file", input: { path: "example.txt", content: "hello" } }),
        says(text("The file is written.")),
      ],
    },
    // It does not end by itself, however slow the browser is.
    { when: "slow", replies: [{ ...says(text(Array.from({ length: 40 }, (_, index) => `word${index} `).join(""))), pace_ms: 50, chunk: 7, hang_after: 30 }] },
    { replies: [says(text("You said {{user}}."))] },
  ],
};

let service;
/** A service with keys, which the pages of the back ends may call. */
let guarded;
let browser;
const started = [];
const ports = {};
before(async () => {
  for (const name of ["node", "python"]) ports[name] = await freePort();
  const origins = Object.values(ports).map((port) => `http://127.0.0.1:${port}`).join();
  [service, guarded, browser] = await Promise.all([
    startService(script, ["--auth", "open"]),
    startService(script, ["--cors-origins", origins, "--permission-mode", "default"]),
    startBrowser(),
  ]);
});
after(async () => {
  for (const example of started) if (example.exitCode === null) process.kill(-example.pid);
  await Promise.all([browser?.close(), service?.stop(), guarded?.stop()]);
});

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  return port;
}

const errors = [];
afterEach(() => assert.deepEqual(errors.splice(0), []));

/** Runs an example, and returns its address. */
async function run(name, args = [], env = {}) {
  const options = { cwd: root, env: { ...process.env, TWOSTEP_URL: service.url, ...env }, detached: true, stdio: ["ignore", "pipe", "inherit"] };
  const example = spawn("scripts/examples", [name, ...args], options);
  started.push(example);
  let output = "";
  return await new Promise((resolve, reject) => {
    example.once("exit", () => reject(new Error(`${name} ended: ${output}`)));
    example.stdout.on("data", (part) => {
      // Vite colours the port.
      output += String(part).replace(/\x1b\[\d+m/g, "");
      const url = /http:\/\/127\.0\.0\.1:\d+/.exec(output);
      if (url) resolve(url[0]);
    });
  });
}

/** Opens a tab. Errors of the page's code fail the test. */
async function open(url) {
  const tab = await browser.newPage();
  tab.setDefaultTimeout(30_000);
  tab.on("pageerror", (error) => errors.push(error));
  await tab.goto(url);
  return tab;
}

async function send(tab, text) {
  await tab.getByLabel("Message").fill(text);
  await tab.getByRole("button", { name: "Send", exact: true }).click();
}
const click = (tab, name) => tab.getByRole("button", { name, exact: true }).last().click();

/** A conversation with an approval, a reload in the middle of an answer, and stop. */
async function converse(tab) {
  await send(tab, "Hello");
  await tab.getByText("You said Hello.").waitFor();
  await send(tab, "Please write");
  await click(tab, "Allow");
  await tab.getByText("The file is written.").waitFor();
  await send(tab, "Be slow");
  await tab.getByText("word5").waitFor();
  await tab.reload();
  await tab.getByText("word8").waitFor();
  await click(tab, "Stop");
  await tab.getByRole("button", { name: "Send", exact: true }).waitFor();
  await send(tab, "Hello again");
  await tab.getByText("You said Hello again.").waitFor();
  assert.equal(await tab.getByText("You said Hello.").count(), 1);
}

describe("examples", { concurrency: 2 }, () => {
  for (const name of ["react", "assistant-ui", "ai-sdk"]) {
    test(name, async () => {
      const tab = await open(await run(name, ["--port", "0"]));
      if (name !== "ai-sdk") await click(tab, "New conversation");
      await converse(tab);
    });
  }

  for (const name of ["node", "python"]) {
    test(`event-source, with the back end in ${name}`, async () => {
      const url = await run(name, [], { PORT: String(ports[name]), TWOSTEP_URL: guarded.url, TWOSTEP_API_KEY: guarded.key });
      const tab = await open(`${url}/?service=${encodeURIComponent(guarded.url)}`);
      await tab.locator("#state", { hasText: "open" }).waitFor();
      await converse(tab);
    });
  }
});

test("the predicate of the AI SDK example is that of the documentation", () => {
  const predicate = readFileSync(`${root}/examples/ai-sdk/is-answered.js`, "utf8");
  assert.ok(readFileSync(`${root}/docs/ai-sdk.md`, "utf8").includes(predicate));
});
