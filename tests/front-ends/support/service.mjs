// A service for the tests of front ends: the program on the database of the test run, with a scripted
// model in its own process.

import { spawn, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const program = process.env.TWOSTEP_PROGRAM;
const log = (text) => {
  if (process.env.TWOSTEP_TEST_SEEN) appendFileSync(join(process.env.TWOSTEP_TEST_SEEN, "front-ends.log"), text);
};

/**
 * Starts a service that plays a script, or asks the model server that the options and `variables` name. `restart`
 * stops it at once and starts another one in its place.
 */
export async function startService(script, options = [], variables = {}) {
  const folder = mkdtempSync(join(tmpdir(), "twostep-front-ends-"));
  const file = join(folder, "script.json");
  if (script) writeFileSync(file, JSON.stringify(script));
  const model = script ? ["--offline", "--script", file] : [];
  const env = { ...process.env, ...variables, TWOSTEP_DATA_DIR: folder, TWOSTEP_LOG: "info" };
  let running;
  const start = async (bind) => {
    const auth = options.includes("--auth") ? [] : ["--auth", "keys"];
    const args = ["serve", ...model, "--bind", bind, ...auth, ...options];
    running = spawn(program, args, { env, stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    running.stderr.on("data", (text) => {
      output += text;
      log(String(text));
    });
    return await new Promise((resolve, reject) => {
      running.on("exit", () => reject(new Error(`the service ended: ${output.slice(-2000)}`)));
      running.stdout.on("data", (text) => {
        output += text;
        log(String(text));
        const url = /http:\/\/127\.0\.0\.1:\d+/.exec(output);
        if (url) resolve(url[0]);
      });
    });
  };
  const url = await start("127.0.0.1:0");
  // The services of a test run share a database: each has a tenant of its own.
  const tenant = `front-ends-${randomUUID()}`;
  const created = spawnSync(program, ["keys", "create", "front-ends", "--new-tenant", tenant], { env, encoding: "utf8" });
  const key = created.stdout.trim();
  if (created.status !== 0) throw new Error(created.stderr);
  const kill = async (signal) => {
    const ended = new Promise((resolve) => running.once("exit", resolve));
    running.kill(signal);
    await ended;
  };
  return {
    url,
    key,
    headers: { authorization: `Bearer ${key}` },
    restart: async () => {
      await kill("SIGKILL");
      await start(new URL(url).host);
    },
    stop: async () => {
      await kill("SIGTERM");
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Waits until a condition holds, for at most 20 seconds. */
export async function until(condition, what) {
  const deadline = Date.now() + 20_000;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > deadline) throw new Error(`timeout: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
