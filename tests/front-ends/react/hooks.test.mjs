// The page with the hooks.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SLOW } from "../ai-sdk/script.mjs";
import { address, click, count, createSession, imageOf, open, PIXEL, says, send, tabs, testPage } from "./suite.mjs";

testPage("hooks");

test("an image, also in a regenerated answer [images]", async () => {
  const tab = await open("hooks");
  await click(tab, "Send image");
  await says(tab, "A nice picture.");
  const before = new URL(tab.url()).search;
  await click(tab, "Regenerate");
  await tab.waitForURL((url) => url.search !== before);
  await says(tab, "A nice picture.");
  await tab.getByText(/\[image/).waitFor();
  assert.equal(await imageOf(tab), PIXEL);
});

test("an uploaded image", async () => {
  const tab = await open("hooks");
  await click(tab, "Upload");
  await says(tab, "A nice picture.");
  await tab.getByText("[image]").waitFor();
});

test("a stopped answer is retried, and its message is shown once", async () => {
  const tab = await open("hooks");
  await send(tab, "Be slow");
  await says(tab, "word3");
  await click(tab, "Stop");
  await tab.locator("main[data-status=idle]").waitFor();
  await click(tab, "Retry");
  await says(tab, SLOW.trim());
  assert.deepEqual([await tab.locator("[data-role=user]").count(), await count(tab)], [1, 3]);
});

test("a call of a sub-agent waits for the page, also after a reload", async () => {
  const tab = await open("hooks");
  await send(tab, "Please delegate");
  await tab.locator("[data-call=write_file]").waitFor();
  await tab.reload();
  await click(tab, "Allow");
  await says(tab, /^The sub-agent said:.*It said/);
});

test("two tabs run a tool of the client, and the first result counts", async () => {
  const tab = await open("hooks");
  const second = await tab.again();
  await send(tab, "Please look up a word");
  await Promise.all([tab, second].map((tab) => says(tab, 'It means {"meaning":"a ledger"}')));
  for (const each of [tab, second]) assert.equal(await each.locator("main").getAttribute("data-error"), null);
});

test("a refused message stays, and is sent again", async () => {
  const tab = await open("hooks");
  const headers = { "content-type": "application/problem+json", "access-control-allow-origin": "*" };
  const refusal = { status: 422, headers, body: '{"detail": "refused by the test"}' };
  await tab.route("**/messages", (route) => (route.request().method() === "POST" ? route.fulfill(refusal) : route.fallback()));
  await send(tab, "Hello");
  await tab.locator("[data-state=failed]").waitFor();
  await tab.unroute("**/messages");
  await click(tab, "Send again");
  await says(tab, "You said Hello.");
  assert.equal(await count(tab), 2);
});

test("a revoked key ends the stream with its code", async () => {
  const tab = await tabs.open(address("hooks", await createSession(), { key: "tsk_wrong" }));
  await tab.locator("main[data-connection=closed][data-error=unauthenticated]").waitFor();
});
