// The SDK of Anthropic for Python, in a process of its own, against a running service.

import { test } from "node:test";
import { runPython } from "../support/python.mjs";
import { startService } from "../support/service.mjs";
import { script } from "./script.mjs";

test("the SDK for Python [text, allow, deny, client-tool, stop, images]", async () => {
  const service = await startService(script);
  try {
    await runPython(new URL("quickstart.py", import.meta.url), { ANTHROPIC_BASE_URL: `${service.url}/anthropic`, ANTHROPIC_API_KEY: service.key });
  } finally {
    await service.stop();
  }
});
