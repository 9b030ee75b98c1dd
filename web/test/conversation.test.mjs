import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Browser, send, status } from "./browser.mjs";
import { attacks } from "./script.mjs";
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

test("the first message creates a session, and its answer grows while it streams", async () => {
  const tab = await browser.tab();
  await send(tab, "write slowly");
  const text = tab.locator("article.agent");
  await text.waitFor();
  const first = (await text.textContent()).length;
  await until(async () => (await text.textContent()).length > first + 200, "the text grows");
  await tab.getByRole("button", { name: "Stop" }).waitFor();
  assert.match(tab.url(), /\?s=ses_[0-9a-f]+$/);
  await status(tab, "Working").waitFor();
  await tab.keyboard.press("Escape");
  await status(tab, "Stopped").waitFor();
  await tab.getByText("The reply was stopped here.").waitFor();
  assert.equal(await tab.locator("article.user").count(), 1);
  await browser.close(tab);
});

test("a reply shows Markdown, folded thinking and highlighted code, each text in its own direction", async () => {
  const tab = await browser.tab();
  await send(tab, "show everything");
  await tab.locator(".markdown table td", { hasText: "2" }).waitFor();
  await tab.locator("pre .hljs-keyword", { hasText: "fn" }).waitFor();
  const link = tab.locator(".markdown a");
  assert.equal(await link.getAttribute("rel"), "noopener noreferrer nofollow");
  const arabic = tab.locator(".markdown p", { hasText: "مرحبا" });
  assert.equal(await arabic.evaluate((element) => getComputedStyle(element).direction), "rtl");
  await send(tab, "think");
  await tab.getByText("I have thought.").waitFor();
  const thought = tab.getByText("consider");
  assert.equal(await thought.isVisible(), false);
  await tab.locator("summary", { hasText: "Thinking" }).click();
  await thought.waitFor();
  await browser.close(tab);
});

test("calls that are made together are shown together, each with input, output and duration", async () => {
  const tab = await browser.tab();
  await send(tab, "two at once");
  await tab.getByText("Both are done.").waitFor();
  const group = tab.getByRole("region", { name: "2 calls" });
  const cards = group.locator("details.tool");
  assert.equal(await cards.count(), 2);
  const time = cards.filter({ hasText: "get_time" });
  assert.match(await time.locator(".tool-state").textContent(), /\d+ ms · done/);
  await time.locator("summary").click();
  await time.locator("pre", { hasText: '"timezone": "Europe/Oslo"' }).waitFor();
  await time.locator("pre").nth(1).waitFor();
  await browser.close(tab);
});

test("the tasks of the agent are shown with their progress", async () => {
  const { id } = await service.session({ tools: ["TodoWrite"] });
  const tab = await browser.tab(`?s=${id}`);
  await send(tab, "plan it");
  await tab.getByText("Tasks: 1 of 2 done").click();
  await tab.locator(".todos li", { hasText: "Write the file" }).getByText("in progress").waitFor();
  await browser.close(tab);
});

test("a message that is sent while the agent works is queued, and can be removed", async () => {
  const tab = await browser.tab();
  await send(tab, "write slowly");
  await status(tab, "Working").waitFor();
  await send(tab, "and then this");
  const queue = tab.getByRole("region", { name: "Queued messages" });
  await queue.getByText("and then this").waitFor();
  await queue.getByRole("button", { name: "Remove from the queue" }).click();
  await queue.waitFor({ state: "detached" });
  await tab.getByRole("button", { name: "Stop" }).first().click();
  await status(tab, "Stopped").waitFor();
  await browser.close(tab);
});

test("hostile Markdown runs nothing, loads nothing and covers nothing", async () => {
  const tab = await browser.tab();
  // The text is also the title of the session.
  await send(tab, `hostile ${attacks[1]}`);
  await status(tab, "Done").waitFor();
  const reply = tab.locator("article.agent");
  const tags = await reply.evaluate((element) => [
    ...new Set([...element.querySelectorAll(".markdown > div *")].map(({ tagName }) => tagName)),
  ]);
  const allowed = ["A", "BR", "BUTTON", "CODE", "P", "PRE", "SPAN"];
  assert.deepEqual(
    tags.filter((tag) => !allowed.includes(tag)),
    [],
  );
  for (const href of await reply.locator("a").evaluateAll((all) => all.map((one) => one.href))) {
    assert.match(href, /^(https?|mailto):/);
    assert.equal(href.startsWith(service.url), false, href);
  }
  const attributes = await reply.evaluate((element) =>
    [...element.querySelectorAll("*")]
      .flatMap((one) => one.getAttributeNames())
      .filter((name) => name.startsWith("on") || name === "style" || name === "id"),
  );
  assert.deepEqual(attributes, []);
  // What a message says is shown as it is.
  const text = await reply.textContent();
  for (const attack of attacks.slice(0, 3)) assert.ok(text.includes(attack), attack);
  assert.equal(await tab.evaluate(() => window.hacked), undefined);
  await tab.reload();
  await reply.waitFor();
  assert.equal(await tab.evaluate(() => window.hacked), undefined);
  await browser.close(tab);
});

test("a failed run states its reason, and its message can be sent again", async () => {
  const tab = await browser.tab();
  await send(tab, "break");
  const failure = tab.locator(".failure");
  await status(tab, "Failed").waitFor();
  const id = new URL(tab.url()).searchParams.get("s");
  const [run] = (await service.api("GET", `/sessions/${id}/runs`)).data;
  await failure.getByText(run.error.message).waitFor();
  await failure.getByRole("button", { name: "Try again" }).click();
  await tab.locator(".failure").nth(1).waitFor();
  await browser.close(tab);
});

test("text that is written in a session is kept as a draft of this tab", async () => {
  const [one, other] = [await service.session({ title: "One" }), await service.session({ title: "Other" })];
  const tab = await browser.tab(`?s=${one.id}`);
  await tab.locator("#message").fill("half a thought");
  await tab.locator(`a[data-id="${other.id}"]`).click();
  await tab.getByRole("heading", { name: "Other" }).waitFor();
  assert.equal(await tab.locator("#message").inputValue(), "");
  await tab.goBack();
  await tab.getByRole("heading", { name: "One" }).waitFor();
  assert.equal(await tab.locator("#message").inputValue(), "half a thought");
  await tab.reload();
  assert.equal(await tab.locator("#message").inputValue(), "half a thought");
  await browser.close(tab);
});

test("a failed message is tried again, and shown once", async () => {
  const tab = await browser.tab();
  await send(tab, "break");
  await tab.locator(".failure").getByRole("button", { name: "Try again" }).click();
  await tab.getByText("Tried again").waitFor();
  await tab.locator(".failure").nth(1).waitFor();
  assert.equal(await tab.locator("article.user").count(), 1);
  await browser.close(tab);
});

test("a run that was stopped is tried again", async () => {
  const tab = await browser.tab();
  await send(tab, "write slowly");
  await tab.getByText("Paragraph 2 has").waitFor();
  await tab.keyboard.press("Escape");
  await status(tab, "Stopped").waitFor();
  await tab.getByRole("button", { name: "Try again" }).click();
  await status(tab, "Working").waitFor();
  assert.equal(await tab.getByText("The run was stopped.").count(), 0);
  await tab.keyboard.press("Escape");
  await status(tab, "Stopped").waitFor();
  await browser.close(tab);
});

test("a message that the service does not accept at once says that it is being sent", async () => {
  const { id } = await service.session();
  const tab = await browser.tab(`?s=${id}`);
  await status(tab, "Ready").waitFor();
  await tab.route("**/messages", (route) => (route.request().method() === "POST" ? undefined : route.fallback()));
  await send(tab, "think");
  await tab.locator(".outgoing").getByText("Being sent").waitFor();
  await tab.unroute("**/messages");
  const headers = { "content-type": "application/problem+json", "retry-after": "1" };
  const full = { status: 429, headers, body: '{"detail": "the queue is full", "code": "overloaded"}' };
  await tab.route("**/messages", (route) => (route.request().method() === "POST" ? route.fulfill(full) : route.fallback()));
  await send(tab, "think");
  await tab.locator(".outgoing").getByText("Being sent again: the queue is full").waitFor();
  await tab.unroute("**/messages");
  await tab.getByText("I have thought.").waitFor();
  await browser.close(tab);
});

test("a message that was queued is shown before the answer to it, also after a reload", async () => {
  const { id } = await service.session();
  const tab = await browser.tab(`?s=${id}`);
  await send(tab, "write slowly");
  await tab.getByText("Paragraph 2 has").waitFor();
  await send(tab, "think");
  await tab.getByRole("region", { name: "Queued messages" }).getByText("think").waitFor();
  await tab.getByText("I have thought.").waitFor();
  const order = () => tab.locator("#log article").evaluateAll((all) => all.map(({ className }) => className));
  assert.deepEqual(await order(), ["user", "agent", "user", "agent"]);
  await tab.reload();
  await tab.getByText("I have thought.").waitFor();
  assert.deepEqual(await order(), ["user", "agent", "user", "agent"]);
  await browser.close(tab);
});
