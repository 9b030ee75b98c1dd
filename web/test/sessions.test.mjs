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

const row = (tab, title) => tab.locator(".session", { hasText: title });

test("the list shows the status of each session, also of one that another client uses", async () => {
  const { id } = await service.session({ title: "Used elsewhere" });
  const tab = await browser.tab();
  await row(tab, "Used elsewhere").getByText("Ready").waitFor();
  await service.ask(id, "think");
  await row(tab, "Used elsewhere").getByText("Done").waitFor();
  await service.ask(id, "break");
  await row(tab, "Used elsewhere").getByText("Failed").waitFor();
  await browser.close(tab);
});

test("the header of a session and its line in the list agree, also while the list receives no changes", async () => {
  const { id } = await service.session({ title: "Before" });
  const tab = await browser.tab(`?s=${id}`, { without: "**/v1/sessions/stream*" });
  await tab.getByRole("heading", { name: "Before" }).waitFor();
  const line = tab.locator(`a[data-id="${id}"]`);
  await send(tab, "write slowly");
  await status(tab, "Working").waitFor();
  assert.match(await line.textContent(), /Working/);
  await tab.keyboard.press("Escape");
  await status(tab, "Stopped").waitFor();
  assert.match(await line.textContent(), /Stopped/);
  await service.api("PATCH", `/sessions/${id}`, { title: "After" });
  await tab.getByRole("heading", { name: "After" }).waitFor();
  assert.match(await line.textContent(), /After/);
  await service.api("PATCH", `/sessions/${id}`, { title: null });
  await tab.getByRole("heading", { name: "Untitled session" }).waitFor();
  assert.match(await line.textContent(), /Untitled session/);
  await browser.close(tab);
});

test("the line of a sub-agent shows that it is done while its parent still works", async () => {
  const { id } = await service.session({ title: "Parent", tools: ["Task"] });
  const tab = await browser.tab(`?s=${id}`);
  await send(tab, "ask another one");
  await tab.getByText("Paragraph 2 has some text.").waitFor();
  const line = tab.getByRole("list", { name: "Sub-agents" }).locator(".session");
  await line.getByText("Done").waitFor({ timeout: 2000 });
  await status(tab, "Working").waitFor();
  await tab.keyboard.press("Escape");
  await status(tab, "Stopped").waitFor();
  await browser.close(tab);
});

test("a search finds sessions by title and by the words of messages", async () => {
  const { id } = await service.session({ title: "Zebra crossing" });
  await service.ask(id, "Tell me about marmalade");
  const tab = await browser.tab();
  for (const words of ["zebra", "marmalade"]) {
    await tab.getByLabel("Search sessions").fill(words);
    await until(async () => (await tab.locator(".session").count()) === 1, "one session is found");
    await row(tab, "Zebra crossing").waitFor();
  }
  await tab.getByLabel("Search sessions").fill("nothing has this");
  await tab.getByText("No session matches.").waitFor();
  await browser.close(tab);
});

test("a session is renamed, archived, restored and deleted", async () => {
  const { id } = await service.session({ title: "First name" });
  const tab = await browser.tab(`?s=${id}`);
  const choose = async (name) => {
    await tab.getByRole("button", { name: "More", exact: true }).click();
    await tab.locator("#session-menu").getByRole("button", { name }).click();
  };
  await tab.getByRole("heading", { name: "First name" }).waitFor();
  await choose("Rename");
  await tab.getByLabel("Title").fill("Second name");
  await tab.getByRole("button", { name: "Save" }).click();
  await row(tab, "Second name").waitFor();
  await choose("Archive");
  await tab.getByText("This session is archived").waitFor();
  await row(tab, "Second name").waitFor({ state: "detached" });
  await tab.getByRole("button", { name: "Archived" }).click();
  await row(tab, "Second name").waitFor();
  await choose("Restore");
  await tab.locator("#message").waitFor();
  await tab.getByRole("button", { name: "Active" }).click();
  await row(tab, "Second name").waitFor();
  await choose("Delete");
  await tab.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click();
  await tab.getByRole("heading", { name: "What should the agent do?" }).waitFor();
  await row(tab, "Second name").waitFor({ state: "detached" });
  await browser.close(tab);
});

test("an edited message continues in a fork, and the branch switcher leads back", async () => {
  const tab = await browser.tab();
  await send(tab, "show everything");
  await status(tab, "Done").waitFor();
  await send(tab, "think");
  await tab.getByText("I have thought.").waitFor();
  const source = tab.url();
  const message = tab.locator("article.user", { hasText: "think" });
  await message.getByRole("button", { name: "Edit as a fork" }).click();
  await tab.getByRole("textbox", { name: "Edit as a fork" }).fill("two at once");
  await tab.getByRole("button", { name: "Send in a fork" }).click();
  await tab.getByText("Both are done.").waitFor();
  assert.notEqual(tab.url(), source);
  await tab.locator(".markdown table").waitFor();
  assert.equal(await tab.getByText("I have thought.").count(), 0);
  await tab.getByLabel("Branch").selectOption({ index: 0 });
  await tab.getByText("I have thought.").waitFor();
  assert.equal(tab.url(), source);
  await browser.close(tab);
});

test("a new session has the chosen agent, tools and permission mode", async () => {
  const tab = await browser.tab();
  await tab.getByText("Options").click();
  await tab.getByLabel("Permission mode").selectOption("plan");
  await tab.getByLabel("Chosen tools").check();
  await tab.getByRole("checkbox", { name: "write_file", exact: true }).uncheck();
  await send(tab, "think");
  await tab.getByText("I have thought.").waitFor();
  const session = await service.api("GET", `/sessions/${new URL(tab.url()).searchParams.get("s")}`);
  assert.equal(session.permission_mode, "plan");
  assert.deepEqual(session.tools.toSorted(), ["get_time", "list_files", "read_file"]);
  await tab.getByRole("button", { name: "New session" }).click();
  await tab.getByText("Options").click();
  await tab.getByRole("combobox", { name: "Agent" }).selectOption("general");
  await send(tab, "think");
  await tab.locator(".thread-title", { hasText: "general@" }).waitFor();
  await browser.close(tab);
});

test("the start says that the simulator is no model, and offers messages that work", async () => {
  const tab = await browser.tab();
  await tab.getByText("it is not a language model").waitFor();
  await tab.getByRole("button", { name: "What time is it in Europe/Oslo?" }).click();
  await tab.locator("#message").press("Enter");
  await tab.getByText("In Europe/Oslo it is").waitFor();
  await browser.close(tab);
});

// 10,000 sessions take a minute to create.
const many = Number(process.env.TWOSTEP_PAGE_SESSIONS ?? 2_000);

test(`a list of ${many} sessions is read in pages, and stays quick`, async () => {
  const titles = Array.from({ length: many }, (_, index) => `Session ${index + 1}`);
  const create = async () => {
    for (let title = titles.shift(); title !== undefined; title = titles.shift()) await service.session({ title });
  };
  await Promise.all(Array.from({ length: 24 }, create));
  const tab = await browser.tab();
  await tab.locator(".session").first().waitFor();
  assert.ok((await tab.locator(".session").count()) <= 150, "the first pages");
  const scroller = tab.locator(".session-scroll");
  await until(async () => {
    await scroller.evaluate((element) => (element.scrollTop = element.scrollHeight));
    return (await tab.locator(".session").count()) >= 1000;
  }, "more pages are read");
  const frame = await tab.evaluate(longestFrame, ".session-scroll");
  assert.ok(frame < 200, `the longest frame takes ${frame} ms`);
  await tab.getByLabel("Search sessions").fill("1321");
  await row(tab, "Session 1321").waitFor();
  await browser.close(tab);
});

/** Scrolls an element up for a second, and returns the longest time between two frames. */
async function longestFrame(selector) {
  const element = document.querySelector(selector);
  let longest = 0;
  let last = performance.now();
  for (const end = last + 1000; last < end;) {
    await new Promise((resolve) => requestAnimationFrame(resolve));
    const now = performance.now();
    longest = Math.max(longest, now - last);
    last = now;
    element.scrollTop -= 120;
  }
  return longest;
}

test("the list shows only the sessions with a status, and follows their changes", async () => {
  const asks = await service.session({ title: "It asks", permission_mode: "default" });
  await service.session({ title: "It rests" });
  await service.ask(asks.id, "note it");
  const tab = await browser.tab();
  await row(tab, "It rests").waitFor();
  await tab.getByLabel("Status", { exact: true }).selectOption("requires_action");
  await row(tab, "It rests").waitFor({ state: "detached" });
  await row(tab, "It asks").waitFor();
  const [call] = (await service.api("GET", `/sessions/${asks.id}/approvals`)).data;
  await service.api("POST", `/sessions/${asks.id}/approvals/${call.tool_use_id}`, { decision: "deny" });
  await tab.getByText("No session matches.").waitFor();
  await tab.getByLabel("Status", { exact: true }).selectOption("");
  await row(tab, "It asks").waitFor();
  await browser.close(tab);
});

test("a session is found by its id", async () => {
  const { id } = await service.session({ title: "Found by its id" });
  await service.session({ title: "Not this one" });
  const tab = await browser.tab();
  await row(tab, "Not this one").waitFor();
  await tab.locator("#search").fill(id);
  await row(tab, "Not this one").waitFor({ state: "detached" });
  await row(tab, "Found by its id").waitFor();
  await tab.locator("#search").fill(id.replace(/.{4}$/, "0000"));
  await tab.getByText("No session matches.").waitFor();
  await browser.close(tab);
});
