// A service with the simulator, on the database of scripts/with-postgres.

import { execFile, spawn } from "node:child_process";
import { openSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { script } from "./script.mjs";

const program = process.env.TWOSTEP_PROGRAM;
const run = promisify(execFile);

/** Repeats a check until it returns a value. */
export async function until(check, what, limit = 30_000) {
  for (const deadline = Date.now() + limit; ;) {
    const found = await check();
    if (found) return found;
    if (Date.now() > deadline) throw new Error(`timeout: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

export class Service {
  static async start({ args = [], auth = "keys", prices } = {}) {
    const service = new Service();
    service.folder = await mkdtemp(join(tmpdir(), "twostep-page-"));
    const file = join(service.folder, "script.json");
    await writeFile(file, JSON.stringify(script));
    service.args = ["--offline", "--script", file, "--auth", auth, "--permission-mode", "accept_edits", ...args];
    if (prices !== undefined) {
      await writeFile(join(service.folder, "prices.json"), JSON.stringify(prices));
      service.args.push("--prices", join(service.folder, "prices.json"));
    }
    service.bind = "127.0.0.1:0";
    await service.resume();
    service.key = await service.newKey("page");
    return service;
  }

  async command(...args) {
    const { stdout } = await run(program, [...args, "--data-dir", this.folder]);
    return stdout;
  }

  async newKey(name) {
    return (await this.command("keys", "create", name)).trim();
  }

  /** Starts the process again at the same address. */
  async resume() {
    const log = process.env.TWOSTEP_TEST_SEEN ? join(process.env.TWOSTEP_TEST_SEEN, "page.log") : "/dev/null";
    const output = join(this.folder, `output-${Date.now()}`);
    this.process = spawn(program, ["serve", "--bind", this.bind, "--data-dir", this.folder, ...this.args], {
      stdio: ["ignore", openSync(output, "w"), openSync(log, "a")],
    });
    const url = async () => /http:\/\/127\.0\.0\.1:\d+/.exec(await readFile(output, "utf8"))?.[0];
    this.url = await until(url, "the service starts");
    this.bind = new URL(this.url).host;
  }

  async kill() {
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    this.process.kill("SIGKILL");
    await ended;
  }

  async stop() {
    await this.kill();
    await rm(this.folder, { recursive: true, force: true });
  }

  async api(method, path, body, type = "application/json") {
    const isRaw = body === undefined || typeof body === "string" || body instanceof Uint8Array;
    const response = await fetch(`${this.url}/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${this.key}`, ...(body !== undefined && { "content-type": type }) },
      body: isRaw ? body : JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return response.status === 204 ? undefined : response.json();
  }

  session(settings = {}) {
    return this.api("POST", "/sessions", settings);
  }

  upload(id, name, content) {
    return this.api("POST", `/sessions/${id}/files?name=${name}`, content, "application/octet-stream");
  }

  /** Posts a message and waits until its run settles or waits for the client. */
  async ask(id, content) {
    const { id: run } = await this.api("POST", `/sessions/${id}/messages`, { content });
    return until(async () => {
      const found = await this.api("GET", `/sessions/${id}/runs/${run}`);
      return ["queued", "running"].includes(found.status) ? undefined : found;
    }, "the run settles");
  }
}
