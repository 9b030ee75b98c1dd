// The packed client in Chromium, as files without a bundler: an import map names them. The page calls the service
// through the server of the page.

import assert from "node:assert/strict";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer, request } from "node:http";
import { test } from "node:test";
import { withPage } from "../../../tests/browser/browser.mjs";

const imports = { "@twostep/client": "/client/index.js", "eventsource-parser": "/parser/index.js" };
const page = `<!doctype html><script type="importmap">${JSON.stringify({ imports })}</script>`;
const folders = { client: "node_modules/@twostep/client/dist", parser: "../node_modules/eventsource-parser/dist" };
const service = new URL(process.env.TWOSTEP_URL);

/** Forwards a request to the service, with the key. */
function forward(incoming, response) {
  const headers = { ...incoming.headers, host: service.host, authorization: `Bearer ${process.env.TWOSTEP_KEY}` };
  delete headers.origin;
  const options = { method: incoming.method, path: incoming.url.slice("/agent".length), headers };
  const outgoing = request(service, options, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  outgoing.on("error", () => response.destroy());
  response.on("close", () => outgoing.destroy());
  incoming.pipe(outgoing);
}

async function serve(incoming, response) {
  if (incoming.url.startsWith("/agent/")) return forward(incoming, response);
  const [, folder, file] = /^\/(client|parser)\/([\w-]+\.js)$/.exec(incoming.url) ?? [];
  if (folder === undefined) return response.writeHead(200, { "content-type": "text/html" }).end(page);
  const text = await readFile(new URL(`${folders[folder]}/${file}`, import.meta.url));
  response.writeHead(200, { "content-type": "text/javascript" }).end(text);
}

test("a conversation with an approval, a reload and a deleted session", async () => {
  const server = createServer((incoming, response) => void serve(incoming, response)).listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    await withPage(async (tab) => {
      await tab.goto(`http://127.0.0.1:${server.address().port}/`);
      const { id, now: asked } = await tab.evaluate(async () => {
        const { empty, reduce, Twostep } = await import("@twostep/client");
        const client = new Twostep({ baseUrl: "/agent" });
        const session = await client.createSession({ tools: ["write_file"], permission_mode: "default" });
        const run = await client.send(session.id, "Write hello to notes.txt");
        let now = empty;
        for await (const event of client.runEvents(session.id, run.id)) now = reduce(now, event);
        const call = now.items.find((item) => item.state === "awaiting_approval");
        await client.approve(session.id, call.id);
        for await (const event of client.runEvents(session.id, run.id, { after: now.seq })) now = reduce(now, event);
        return { id: session.id, now };
      });
      assert.deepEqual([asked.status, asked.stopReason.type], ["idle", "end_turn"]);
      await tab.reload();
      const replayed = await tab.evaluate(async ({ id, seq }) => {
        const { empty, ProblemError, reduce, Twostep } = await import("@twostep/client");
        const client = new Twostep({ baseUrl: new URL("/agent/", location.href) });
        let now = empty;
        for await (const event of client.events(id)) {
          now = reduce(now, event);
          if (now.seq === seq) void client.deleteSession(id);
        }
        const error = await client.session(id).catch((error) => error);
        return { now, isProblem: error instanceof ProblemError, code: error.code };
      }, { id, seq: asked.seq });
      assert.deepEqual([replayed.now.isDeleted, replayed.now.items], [true, asked.items]);
      assert.deepEqual([replayed.isProblem, replayed.code], [true, "session_not_found"]);
    });
  } finally {
    server.closeAllConnections();
    server.close();
  }
});
