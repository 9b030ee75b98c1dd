// The package of OpenAI for Python, in a process of its own, against a running service.

import { test } from "node:test";
import { runPython } from "../support/python.mjs";
import { startService } from "../support/service.mjs";
import { script } from "./script.mjs";

for (const [file, cases] of [
  ["completions.py", "text, tools, client-tool, regenerate, images, error"],
  ["responses.py", "openai-responses: text, tools, client-tool, images, stop, error"],
]) {
  test(`the package for Python, ${file} [${cases}]`, async () => {
    const service = await startService(script);
    try {
      await runPython(new URL(file, import.meta.url), { OPENAI_BASE_URL: `${service.url}/openai/v1`, OPENAI_API_KEY: service.key });
    } finally {
      await service.stop();
    }
  });
}
