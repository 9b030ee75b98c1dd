// The page with assistant-ui.

import assert from "node:assert/strict";
import { test } from "node:test";
import { click, imageOf, open, PIXEL, says, send, testPage } from "./suite.mjs";

testPage("assistant-ui", "assistant-ui: ");

test("an image of the composer [assistant-ui: images]", async () => {
  const tab = await open("assistant-ui");
  const chooser = tab.waitForEvent("filechooser");
  await click(tab, "Attach");
  await (await chooser).setFiles({ name: "pixel.png", mimeType: "image/png", buffer: Buffer.from(PIXEL, "base64") });
  await tab.locator("[data-attached]").waitFor();
  await send(tab, "Which image?");
  await says(tab, "A nice picture.");
  await tab.locator("img[alt=sent]").waitFor();
  assert.equal(await imageOf(tab), PIXEL);
});
