import assert from "node:assert/strict";
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

const answer = (tab) => tab.locator("article.agent");
const good = (tab) => answer(tab).getByRole("button", { name: "Good answer" });
const bad = (tab) => answer(tab).getByRole("button", { name: "Bad answer" });
const isPressed = (button, value) =>
  until(async () => (await button.getAttribute("aria-pressed")) === String(value), `pressed: ${value}`);

/** A session with one answer. */
async function answered() {
  const { id } = await service.session();
  await service.ask(id, "think");
  return id;
}

/** The feedback that the service has stored. */
async function stored(id) {
  const { data } = await service.api("GET", `/sessions/${id}/messages`);
  return data.find(({ message }) => message.role === "assistant").feedback;
}

test("an answer is rated with the keyboard, and the other tab and a reload show the rating", async () => {
  const id = await answered();
  const [tab, other] = [await browser.tab(`?s=${id}`), await browser.tab(`?s=${id}`)];
  await isPressed(good(other), false);
  await tab.bringToFront();
  await good(tab).focus();
  await tab.keyboard.press("Enter");
  await isPressed(good(tab), true);
  await isPressed(good(other), true);
  assert.equal((await stored(id)).rating, "up");
  await bad(other).click();
  await isPressed(bad(tab), true);
  await isPressed(good(tab), false);
  await tab.reload();
  await isPressed(bad(tab), true);
  await bad(tab).click();
  await isPressed(bad(other), false);
  await isPressed(bad(tab), false);
  assert.equal(await stored(id), undefined);
  await browser.close(tab);
  await browser.close(other);
});

test("a rating has a comment, which is changed, and kept when the rating changes", async () => {
  const id = await answered();
  const tab = await browser.tab(`?s=${id}`);
  await bad(tab).click();
  await answer(tab).getByRole("button", { name: "Add a comment" }).click();
  const field = answer(tab).getByLabel("Comment");
  assert.equal(await field.evaluate((one) => one === document.activeElement), true);
  await field.fill("It is <b>wrong</b>.");
  await answer(tab).getByRole("button", { name: "Save" }).click();
  await answer(tab).getByText("It is <b>wrong</b>.").waitFor();
  assert.equal((await stored(id)).text, "It is <b>wrong</b>.");
  await good(tab).click();
  await isPressed(good(tab), true);
  const { rating, text } = await stored(id);
  assert.deepEqual({ rating, text }, { rating: "up", text: "It is <b>wrong</b>." });
  await tab.reload();
  await answer(tab).getByRole("button", { name: "Change the comment" }).click();
  assert.equal(await field.inputValue(), "It is <b>wrong</b>.");
  await field.fill("");
  await answer(tab).getByRole("button", { name: "Save" }).click();
  await answer(tab).getByRole("button", { name: "Add a comment" }).waitFor();
  assert.equal((await stored(id)).text, undefined);
  await browser.close(tab);
});

test("a rating that the service refuses is not shown, and the reason is", async () => {
  const id = await answered();
  const { token } = await service.api("POST", "/browser_tokens", { session_id: id, scopes: ["read"] });
  const tab = await browser.tab(`?s=${id}`, { key: token });
  await good(tab).click();
  await tab.getByRole("alert").getByText("This key does not allow it.").waitFor();
  await isPressed(good(tab), false);
  await browser.close(tab);
});

test("the user of a browser token rates answers, and a copied message of a fork begins without rating", async () => {
  const id = await answered();
  const { token } = await service.api("POST", "/browser_tokens", { session_id: id, scopes: ["read", "post"] });
  const tab = await browser.tab(`?s=${id}`, { key: token });
  await good(tab).click();
  await isPressed(good(tab), true);
  const fork = await service.api("POST", `/sessions/${id}/forks`, {});
  const other = await browser.tab(`?s=${fork.id}`);
  await isPressed(good(other), false);
  await bad(other).click();
  await isPressed(bad(other), true);
  await other.reload();
  await isPressed(bad(other), true);
  await isPressed(good(tab), true);
  await browser.close(tab);
  await browser.close(other);
});

test("an answer that still streams cannot be rated", async () => {
  const tab = await browser.tab();
  await send(tab, "write slowly");
  await tab.getByText("Paragraph 2 has some text.").waitFor();
  assert.equal(await good(tab).count(), 0);
  await tab.keyboard.press("Escape");
  await status(tab, "Stopped").waitFor();
  await browser.close(tab);
});
