import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Browser, isFirefox, send, status } from "./browser.mjs";
import { Service, until } from "./service.mjs";

let service;
let browser;

before(async () => {
  service = await Service.start({ args: ["--max-message-mb", "1"] });
  browser = await Browser.start(service);
});
after(async () => {
  await browser?.stop();
  await service?.stop();
});

const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const picture = { name: "dot.png", mimeType: "image/png", buffer: Buffer.from(png, "base64") };
const words = { name: "words.txt", mimeType: "text/plain", buffer: Buffer.from("some words") };
const choose = (tab, ...files) => tab.locator("input[type=file]").setInputFiles(files);
const chosen = (tab, name) => tab.locator(".files li", { hasText: name });
const isShown = (image) => until(() => image.evaluate((one) => one.naturalWidth > 0), "the image is shown");

/** The content of the first message of the session that a tab shows. */
async function contentOf(tab) {
  const id = new URL(tab.url()).searchParams.get("s");
  const { data } = await service.api("GET", `/sessions/${id}/messages`);
  return data[0].message.content;
}

/** Drops or pastes an image. */
const give = (selector, type) => (tab) =>
  tab.evaluate(
    ([selector, type, png]) => {
      const data = new DataTransfer();
      const bytes = Uint8Array.from(atob(png), (character) => character.charCodeAt(0));
      data.items.add(new File([bytes], `${type}.png`, { type: "image/png" }));
      const options = { bubbles: true, cancelable: true };
      const event =
        type === "paste"
          ? // Not every browser takes files from a made clipboard.
            Object.defineProperty(new ClipboardEvent(type, options), "clipboardData", { value: data })
          : new DragEvent(type, { ...options, dataTransfer: data });
      document.querySelector(selector).dispatchEvent(event);
    },
    [selector, type, png],
  );

test("files are uploaded when they are chosen, and the message refers to them by their ids", async () => {
  const tab = await browser.tab();
  await choose(tab, picture, words);
  await isShown(chosen(tab, "dot.png").locator("img"));
  await send(tab, "Look at this");
  await status(tab, "Done").waitFor();
  const [image, document, text] = await contentOf(tab);
  assert.deepEqual(Object.keys(image.source).toSorted(), ["file_id", "type"]);
  assert.equal(document.title, "words.txt");
  assert.match(document.source.file_id, /^file_/);
  assert.equal(text.text, "Look at this");
  await browser.close(tab);
});

test("a reload and a second tab show the images of a message, and download its documents", async () => {
  const { id } = await service.session();
  const tab = await browser.tab(`?s=${id}`);
  await choose(tab, picture, words);
  await send(tab, "Look at this");
  await status(tab, "Done").waitFor();
  await tab.reload();
  const { token } = await service.api("POST", "/browser_tokens", { session_id: id, scopes: ["read"] });
  const other = await browser.tab(`?s=${id}`, { key: token });
  for (const one of [tab, other]) {
    await isShown(one.locator("article.user").getByRole("link", { name: "Image" }).locator("img"));
    // The driver of Firefox does not report downloads.
    const download = isFirefox ? undefined : one.waitForEvent("download");
    await one.getByRole("button", { name: "words.txt" }).click();
    if (!isFirefox) assert.equal((await download).suggestedFilename(), "words.txt");
    await browser.close(one);
  }
});

for (const [type, selector] of [
  ["paste", "#message"],
  ["drop", "#message"],
  ["drop", "#log"],
]) {
  test(`an image is attached by ${type} at ${selector}, also with a browser token`, async () => {
    const { id } = await service.session();
    const { token } = await service.api("POST", "/browser_tokens", { session_id: id, scopes: ["read", "post"] });
    const tab = await browser.tab(`?s=${id}`, { key: token });
    await status(tab, "Ready").waitFor();
    await give(selector, type)(tab);
    await isShown(chosen(tab, `${type}.png`).locator("img"));
    await tab.locator("#message").focus();
    await tab.keyboard.press("Enter");
    await isShown(tab.locator("article.user img"));
    await status(tab, "Done").waitFor();
    assert.equal((await contentOf(tab))[0].source.type, "file");
    await browser.close(tab);
  });
}

test("a file of another type and one that is too large state the reason of the service", async () => {
  const tab = await browser.tab();
  await choose(
    tab,
    { name: "program.bin", mimeType: "image/png", buffer: Buffer.from([0, 1, 2, 255]) },
    { name: "large.txt", mimeType: "text/plain", buffer: Buffer.alloc(3_000_000, "words ") },
    words,
  );
  const refusal = await fetch(`${service.url}/v1/files`, {
    method: "POST",
    headers: { authorization: `Bearer ${service.key}`, "content-type": "application/octet-stream" },
    body: Buffer.from([0, 1, 2, 255]),
  });
  const { errors } = await refusal.json();
  await chosen(tab, "program.bin").getByRole("alert").getByText(errors[0].message).waitFor();
  await chosen(tab, "large.txt").getByRole("alert").getByText("the body is larger than 1000000 bytes").waitFor();
  // The message is not sent without a file that the user has chosen.
  await send(tab, "Look at this");
  await until(
    () => chosen(tab, "program.bin").evaluate((one) => one.contains(document.activeElement)),
    "the refused file has the focus",
  );
  assert.equal(await tab.locator("#message").inputValue(), "Look at this");
  await tab.getByRole("button", { name: "Remove program.bin" }).click();
  await tab.getByRole("button", { name: "Remove large.txt" }).click();
  await tab.locator("#message").press("Enter");
  await status(tab, "Done").waitFor();
  assert.equal((await contentOf(tab)).length, 2);
  await browser.close(tab);
});

test("an upload shows its progress, and a message that is sent meanwhile waits for it", async () => {
  const { id } = await service.session();
  const tab = await browser.tab(`?s=${id}`);
  await status(tab, "Ready").waitFor();
  let release;
  const isReleased = new Promise((resolve) => (release = resolve));
  await tab.route("**/files?*", async (route) => {
    await isReleased;
    await route.continue();
  });
  await choose(tab, words);
  await chosen(tab, "words.txt").getByRole("progressbar", { name: "Uploading words.txt" }).waitFor();
  await send(tab, "Look at this");
  assert.equal(await tab.locator("article.user").count(), 0);
  release();
  await status(tab, "Done").waitFor();
  assert.equal((await contentOf(tab)).length, 2);
  await browser.close(tab);
});

test("a queued message without a text is named after its files", async () => {
  const { id } = await service.session();
  const tab = await browser.tab(`?s=${id}`);
  await send(tab, "write slowly");
  await status(tab, "Working").waitFor();
  await choose(tab, words);
  await tab.locator("#message").press("Enter");
  await tab.getByRole("region", { name: "Queued messages" }).getByText("words.txt", { exact: true }).waitFor();
  await tab.getByRole("button", { name: "Stop" }).first().click();
  await status(tab, "Stopped").waitFor();
  await browser.close(tab);
});

test("a failed upload is tried again on request", async () => {
  const { id } = await service.session();
  const tab = await browser.tab(`?s=${id}`);
  await status(tab, "Ready").waitFor();
  await tab.route("**/files?*", (route) =>
    route.fulfill({
      status: 507,
      contentType: "application/problem+json",
      body: JSON.stringify({ detail: "the quota is used up", code: "storage_quota_exceeded" }),
    }),
  );
  await choose(tab, words);
  await chosen(tab, "words.txt").getByRole("alert").getByText("the quota is used up").waitFor();
  await tab.unroute("**/files?*");
  await chosen(tab, "words.txt").getByRole("button", { name: "Try again" }).click();
  await chosen(tab, "words.txt").getByRole("alert").waitFor({ state: "detached" });
  await send(tab, "Look at this");
  await status(tab, "Done").waitFor();
  await browser.close(tab);
});

test("attached files are part of the draft of a session: another session and a reload keep them", async () => {
  const [one, other] = [await service.session({ title: "One" }), await service.session({ title: "Other" })];
  const tab = await browser.tab(`?s=${one.id}`);
  await choose(tab, picture, words);
  await isShown(chosen(tab, "dot.png").locator("img"));
  await tab.getByRole("progressbar").first().waitFor({ state: "detached" });
  await tab.locator(`a[data-id="${other.id}"]`).click();
  await tab.getByRole("heading", { name: "Other" }).waitFor();
  assert.equal(await tab.locator(".files li").count(), 0);
  await tab.goBack();
  await chosen(tab, "words.txt").waitFor();
  await tab.reload();
  await isShown(chosen(tab, "dot.png").locator("img"));
  await send(tab, "Look at this");
  await status(tab, "Done").waitFor();
  assert.equal((await contentOf(tab)).length, 3);
  await browser.close(tab);
});

for (const [place, first] of [
  ["the first", []],
  ["a later", ["think"]],
]) {
  test(`a fork that changes ${place} message keeps the files of the message`, async () => {
    const { id } = await service.session();
    for (const text of first) await service.ask(id, text);
    const tab = await browser.tab(`?s=${id}`);
    await choose(tab, picture);
    await send(tab, "Look at this");
    const source = tab.url();
    await tab
      .locator("article.user", { hasText: "Look at this" })
      .getByRole("button", { name: "Edit as a fork" })
      .click();
    await tab.getByRole("textbox", { name: "Edit as a fork" }).fill("Look again");
    await tab.getByRole("button", { name: "Send in a fork" }).click();
    await until(() => tab.url() !== source, "the fork is open");
    await isShown(tab.locator("article.user", { hasText: "Look again" }).locator("img"));
    await status(tab, "Done").waitFor();
    await browser.close(tab);
  });
}
