// The package of OpenAI for Python, in a process of its own, against a running service.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { startService } from "../support/service.mjs";
import { script } from "./script.mjs";

test("the package for Python [text, tools, client-tool, regenerate, images, error]", async () => {
  const python = process.env.TWOSTEP_PYTHON;
  assert.ok(python, "scripts/front-ends sets TWOSTEP_PYTHON");
  const service = await startService(script);
  try {
    const file = fileURLToPath(new URL("completions.py", import.meta.url));
    const env = { ...process.env, OPENAI_BASE_URL: `${service.url}/openai/v1`, OPENAI_API_KEY: service.key };
    const child = spawn(python, ["-B", file], { env, stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    for (const pipe of [child.stdout, child.stderr]) pipe.on("data", (text) => (output += text));
    const status = await new Promise((resolve) => child.on("close", resolve));
    assert.equal(status, 0, output);
  } finally {
    await service.stop();
  }
});
