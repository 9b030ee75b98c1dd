// A script in Python, in a process of its own, with the packages of the folder's requirements.txt.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

/** Runs a script to its end, with these variables in its environment. It must succeed. */
export async function runPython(url, variables) {
  const python = process.env.TWOSTEP_PYTHON;
  assert.ok(python, "scripts/front-ends sets TWOSTEP_PYTHON");
  const env = { ...process.env, ...variables };
  const child = spawn(python, ["-B", fileURLToPath(url)], { env, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const pipe of [child.stdout, child.stderr]) pipe.on("data", (text) => (output += text));
  const status = await new Promise((resolve) => child.on("close", resolve));
  assert.equal(status, 0, output);
}
