import assert from "node:assert/strict";
import { createServer, request } from "node:http";
import { once } from "node:events";
import { after, before, test } from "node:test";
import { Browser, send, status } from "./browser.mjs";
import { Service, until } from "./service.mjs";

let service;
let browser;

before(async () => {
  service = await Service.start();
  browser = await Browser.start(service);
});
after(async () => {
  await browser?.stop();
  await service?.stop();
});

/** The texts of the conversation, without times. */
const shown = (tab) => tab.locator("#log article p").allTextContents();

test("a reload in the middle of a reply continues it, without losing or repeating text", async () => {
  const tab = await browser.tab();
  await send(tab, "write slowly");
  await tab.getByText("Paragraph 3 has some text.").waitFor();
  await tab.reload();
  await status(tab, "Working").waitFor();
  await tab.getByText("Paragraph 40 has some text.").waitFor();
  await status(tab, "Done").waitFor();
  const texts = await shown(tab);
  assert.equal(texts.filter((text) => text === "write slowly").length, 1);
  const paragraphs = texts.filter((text) => text.startsWith("Paragraph"));
  assert.deepEqual(
    paragraphs,
    Array.from({ length: 40 }, (_, index) => `Paragraph ${index + 1} has some text.`),
  );
  await browser.close(tab);
});

test("a second tab shows the same conversation at the same time", async () => {
  const { id } = await service.session();
  const [one, other] = [await browser.tab(`?s=${id}`), await browser.tab(`?s=${id}`)];
  await status(other, "Ready").waitFor();
  await send(one, "show everything");
  await other.locator(".markdown table").waitFor();
  await status(one, "Done").waitFor();
  await status(other, "Done").waitFor();
  assert.deepEqual(await shown(other), await shown(one));
  await browser.close(one);
  await browser.close(other);
});

test("a restart of the service shows that the page reconnects, and changes nothing else", async () => {
  const tab = await browser.tab();
  await send(tab, "show everything");
  await status(tab, "Done").waitFor();
  const before = await shown(tab);
  await service.kill();
  await tab.getByText(/Connection lost: reconnecting [1-9]/).waitFor();
  await tab.locator("#message").fill("think");
  await service.resume();
  await tab.getByText(/Connection lost/).waitFor({ state: "detached" });
  assert.deepEqual(await shown(tab), before);
  await tab.locator("#message").press("Enter");
  await tab.getByText("I have thought.").waitFor();
  await browser.close(tab);
});

test("a message that the service does not accept stays, and can be sent again", async () => {
  const tab = await browser.tab();
  await send(tab, "show everything");
  await status(tab, "Done").waitFor();
  await tab.route("**/messages", (route) =>
    route.fulfill({
      status: 409,
      contentType: "application/problem+json",
      body: JSON.stringify({ detail: "not now", code: "session_busy" }),
    }),
  );
  await send(tab, "think");
  await tab.getByText("Not sent: not now").waitFor();
  await tab.unroute("**/messages");
  await tab.locator(".outgoing").getByRole("button", { name: "Try again" }).click();
  await tab.getByText("I have thought.").waitFor();
  assert.equal(await tab.locator(".outgoing").count(), 0);
  await browser.close(tab);
});

test("a key is entered once and kept for the tab; a revoked key is replaced and nothing is lost", async () => {
  const key = await service.newKey("short");
  const tab = await browser.tab("", { key: null });
  const field = tab.getByLabel("API key or browser token");
  await field.fill(key);
  await field.press("Enter");
  await field.waitFor({ state: "hidden" });
  await send(tab, "show everything");
  await status(tab, "Done").waitFor();
  await tab.reload();
  await status(tab, "Done").waitFor();
  assert.equal(await tab.evaluate(() => JSON.stringify(localStorage).includes("tsk_")), false);
  await tab.getByText("A link and code.").waitFor();
  const before = await shown(tab);
  await service.command("keys", "revoke", key.slice(0, key.lastIndexOf("_")));
  await tab.getByText("The service refused the key.").waitFor();
  await field.fill(service.key);
  await field.press("Enter");
  await field.waitFor({ state: "hidden" });
  assert.deepEqual(await shown(tab), before);
  await send(tab, "think");
  await tab.getByText("I have thought.").waitFor();
  await browser.close(tab);
});

test("a browser token of one session shows this session and nothing else", async () => {
  const { id } = await service.session({ title: "Mine" });
  await service.session({ title: "Not mine" });
  const { token } = await service.api("POST", "/browser_tokens", {
    session_id: id,
    scopes: ["read", "post", "decide", "cancel"],
  });
  const tab = await browser.tab(`?s=${id}`, { key: token });
  await send(tab, "think");
  await tab.getByText("I have thought.").waitFor();
  assert.equal(await tab.getByText("Not mine").count(), 0);
  assert.equal(await tab.getByRole("navigation", { name: "Sessions" }).count(), 0);
  await browser.close(tab);
});

test("the page works under the path of a larger site", async () => {
  // As the documented configurations of the proxies do: the path is removed and named in a header.
  const proxy = createServer((incoming, reply) => {
    if (!incoming.url.startsWith("/tools/agent/")) return reply.writeHead(404).end();
    const { host } = new URL(service.url);
    const headers = { ...incoming.headers, host, "x-forwarded-prefix": "/tools/agent" };
    const path = incoming.url.slice("/tools/agent".length);
    const sent = request(service.url, { path, method: incoming.method, headers }, (answer) => {
      reply.writeHead(answer.statusCode, answer.headers);
      answer.pipe(reply);
    });
    sent.on("error", () => reply.destroy());
    reply.on("close", () => sent.destroy());
    incoming.pipe(sent);
  }).listen(0, "127.0.0.1");
  await once(proxy, "listening");
  const tab = await browser.tab("", { url: `http://127.0.0.1:${proxy.address().port}/tools/agent/app/` });
  await send(tab, "show everything");
  await tab.locator("pre .hljs-keyword").waitFor();
  await tab.getByRole("button", { name: "Inspect" }).click();
  await tab.getByText("Model request").waitFor();
  assert.match(tab.url(), /\/tools\/agent\/app\/\?s=ses_/);
  await browser.close(tab);
  proxy.closeAllConnections();
  proxy.close();
});

test("a deleted session says so, and takes no messages", async () => {
  const { id } = await service.session({ title: "Short life" });
  const tab = await browser.tab(`?s=${id}`);
  await status(tab, "Ready").waitFor();
  await service.api("DELETE", `/sessions/${id}`);
  await tab.getByText("This session was deleted.").waitFor();
  await until(async () => (await tab.locator("#message").count()) === 0, "the input is gone");
  await browser.close(tab);
});
