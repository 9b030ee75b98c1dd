// A tool server: `node tool-server.mjs FILE`. It offers the tools that the file names, one a line, and reports
// when the file changes. Without the file it ends.

import { existsSync, readFileSync, watchFile } from "node:fs";
import { createInterface } from "node:readline";

const [file] = process.argv.slice(2);
const write = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);

const inputSchema = { type: "object", properties: {} };
const tools = () =>
  readFileSync(file, "utf8")
    .split("\n")
    .filter(Boolean)
    .map((name) => ({ name, description: `The tool ${name}.`, inputSchema }));

const replies = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: { listChanged: true } },
    serverInfo: { name: "test", version: "1" },
  }),
  "tools/list": () => ({ tools: tools() }),
  "tools/call": () => ({ content: [{ type: "text", text: "called" }] }),
  ping: () => ({}),
};

createInterface({ input: process.stdin })
  .on("line", (line) => {
    const { id, method, params } = JSON.parse(line);
    if (id !== undefined && method !== undefined) write({ id, result: replies[method]?.(params) ?? {} });
  })
  .on("close", () => process.exit());
if (!existsSync(file)) process.exit(1);
watchFile(file, { interval: 50 }, () => {
  if (!existsSync(file)) process.exit(1);
  write({ method: "notifications/tools/list_changed" });
});
