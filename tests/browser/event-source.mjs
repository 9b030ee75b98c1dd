// Runs docs/examples/event-source.html in Chromium. tests/api/documentation/event_source.rs starts the
// service, restarts it, and compares what the page has shown with the events of the session.
//
// Standard output has one line of JSON for each stage, which the test answers with a line:
//
//   {"origin": …}   the origin of the page          → {"service": …, "key": …, "session": …}
//   "answered"      the first answer is shown       → "down": the service has been killed
//   "lost"          two requests for tickets failed → "up": the service runs again
//   {"items": …}    the number and the type of each shown event, after the second answer

import assert from "node:assert/strict";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { withPage } from "./browser.mjs";

const page = new URL("../../docs/examples/event-source.html", import.meta.url);
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const say = (value) => console.log(JSON.stringify(value));
const hear = async () => JSON.parse((await answers.next()).value);

let settings;
let failed = 0;
let invalid = 0;

/** A server in between: it serves the page, and forwards requests with the key. */
async function serve(request, response) {
  if (!request.url.startsWith("/agent/")) {
    response.writeHead(200, { "Content-Type": "text/html" });
    return response.end(await readFile(page));
  }
  const chunks = await request.toArray();
  const headers = { authorization: `Bearer ${settings.key}` };
  for (const name of ["content-type", "idempotency-key"]) {
    if (request.headers[name]) headers[name] = request.headers[name];
  }
  try {
    const url = settings.service + request.url.slice("/agent".length);
    const answer = await fetch(url, { method: request.method, headers, body: Buffer.concat(chunks) });
    let body = await answer.text();
    // The first two tickets are invalid: a ticket can expire before it is used.
    if (request.url.endsWith("/tickets") && invalid < 2) {
      invalid += 1;
      body = body.replace(/ticket=tst_./g, "ticket=tst_x");
    }
    response.writeHead(answer.status, { "Content-Type": answer.headers.get("content-type") });
    response.end(body);
  } catch {
    failed += 1;
    // The development server of Vite answers 500 while the service is unreachable.
    response.writeHead(failed === 1 ? 500 : 502).end();
  }
}

/** Posts a message, and waits until the run is shown that is the `number`-th to settle. */
async function send(tab, text, number) {
  await tab.getByLabel("Message").fill(text);
  await tab.getByRole("button").click();
  await tab.locator("li[data-type='session.status_idle']").nth(number - 1).waitFor();
}

const server = createServer((request, response) => void serve(request, response)).listen(0, "127.0.0.1");
await once(server, "listening");
const origin = `http://127.0.0.1:${server.address().port}`;
say({ origin });
settings = await hear();

await withPage(async (tab) => {
  await tab.goto(`${origin}/?${new URLSearchParams({ session: settings.session, service: settings.service })}`);
  const open = tab.locator("#state", { hasText: "open" });
  await open.waitFor();
  assert.equal(invalid, 2);
  await send(tab, "Are you there?", 1);
  say("answered");

  assert.equal(await hear(), "down");
  const deadline = Date.now() + 60_000;
  while (failed < 2) {
    assert(Date.now() < deadline, "the page requests no tickets");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  say("lost");

  assert.equal(await hear(), "up");
  await open.waitFor();
  await send(tab, "And now?", 2);
  const items = await tab.locator("li").evaluateAll((all) =>
    all.map(({ dataset }) => [Number(dataset.seq), dataset.type]));
  say({ items });
});
server.closeAllConnections();
server.close();
process.stdin.destroy();
