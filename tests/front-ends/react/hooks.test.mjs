// The page with the hooks.

import assert from "node:assert/strict";
import { test } from "node:test";
import { address, click, createSession, imageOf, open, PIXEL, says, tabs, testPage } from "./suite.mjs";

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

test("a revoked key ends the stream with its code", async () => {
  const tab = await tabs.open(address("hooks", await createSession(), { key: "tsk_wrong" }));
  await tab.locator("main[data-connection=closed][data-error=unauthenticated]").waitFor();
});
