import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Browser, isFirefox, send, status } from "./browser.mjs";
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

/** Opens a new session that asks before each change, and sends a message that needs an approval. */
async function asked(settings = {}, text = "note it", options = {}) {
  const session = await service.session({ permission_mode: "default", ...settings });
  const tab = await browser.tab(`?s=${session.id}`, options);
  await tab.locator("#message").fill(text);
  await tab.getByRole("button", { name: "Send", exact: true }).click();
  const card = tab.locator("article.approval");
  await card.waitFor();
  return { tab, card, id: session.id };
}

const decisions = async (id) => {
  const page = await service.api("GET", `/sessions/${id}/events?types=user.tool_confirmation`);
  return page.data;
};

test("an approval shows the change, has the focus, and is given with the keyboard", async () => {
  const { tab, card, id } = await asked();
  await card.locator(".diff .added", { hasText: "+hello" }).waitFor();
  await card.getByText("Denied automatically in").waitFor();
  await until(() => card.evaluate((element) => element === document.activeElement), "the card has the focus");
  await until(async () => (await tab.title()).startsWith("(1) "), "the title has the count");
  await tab.keyboard.press("Tab");
  await tab.keyboard.press("Tab");
  assert.equal(await tab.evaluate(() => document.activeElement.textContent), "Approve");
  await tab.keyboard.press("Enter");
  await tab.getByText("I wrote it").waitFor();
  await until(async () => !(await tab.title()).startsWith("("), "the count is gone");
  assert.deepEqual(
    (await decisions(id)).map(({ result }) => result),
    ["allow"],
  );
  await browser.close(tab);
});

test("a call is denied with a reason, which the agent reads", async () => {
  const { tab, card, id } = await asked();
  await card.getByRole("button", { name: "Deny" }).click();
  await card.getByLabel("Reason for the agent").fill("not today");
  await card.getByRole("button", { name: "Deny" }).click();
  await status(tab, "Done").waitFor();
  assert.equal((await decisions(id))[0].deny_message, "not today");
  await tab.locator(".tool-denied").waitFor();
  await browser.close(tab);
});

test("the input of a call is edited before it is approved", async () => {
  const { tab, card, id } = await asked();
  await card.getByRole("button", { name: "Edit the input" }).click();
  await card.getByRole("button", { name: "Edit as JSON" }).click();
  const area = card.getByLabel("Input");
  await area.fill("{");
  await card.getByText("The input is not a JSON object.").waitFor();
  assert.equal(await card.getByRole("button", { name: "Approve" }).isDisabled(), true);
  await area.fill(JSON.stringify({ path: "other.txt", content: "changed" }));
  await card.getByRole("button", { name: "Approve" }).click();
  await status(tab, "Done").waitFor();
  assert.deepEqual((await decisions(id))[0].input, { path: "other.txt", content: "changed" });
  await browser.close(tab);
});

test("the members of an input are edited as fields, and what is not a text as JSON", async () => {
  const { tab, card, id } = await asked({ tools: ["read_file"], permissions: [{ tool: "read_file", decision: "ask" }] }, "read a part");
  await card.getByRole("button", { name: "Edit the input" }).click();
  await card.getByLabel("limit").fill("two");
  await card.getByText("limit is not valid JSON.").waitFor();
  assert.equal(await card.getByRole("button", { name: "Approve with this input" }).isDisabled(), true);
  await card.getByLabel("limit").fill("2");
  await card.getByLabel("path").fill("other.txt");
  await card.getByRole("button", { name: "Edit as JSON" }).click();
  assert.deepEqual(JSON.parse(await card.getByLabel("Input").inputValue()), { path: "other.txt", limit: 2 });
  await card.getByRole("button", { name: "Edit as fields" }).click();
  await card.getByRole("button", { name: "Approve with this input" }).click();
  await status(tab, "Done").waitFor();
  assert.deepEqual((await decisions(id))[0].input, { path: "other.txt", limit: 2 });
  await browser.close(tab);
});

test("an input that was opened and not changed is approved as the model wrote it", async () => {
  const { tab, card, id } = await asked();
  await card.getByRole("button", { name: "Edit the input" }).click();
  await card.getByRole("button", { name: "Approve with this input" }).click();
  await status(tab, "Done").waitFor();
  assert.equal((await decisions(id))[0].input, undefined);
  await browser.close(tab);
});

test("a user with a phone changes the input of a call with a finger and approves it", async () => {
  const phone = { viewport: { width: 390, height: 844 }, hasTouch: true, ...(!isFirefox && { isMobile: true }) };
  const { tab, card, id } = await asked({}, "note it", phone);
  await card.getByRole("button", { name: "Edit the input" }).tap();
  await card.getByLabel("content").fill("from a phone\nwith two lines");
  const approve = card.getByRole("button", { name: "Approve with this input" });
  await approve.scrollIntoViewIfNeeded();
  const { y, height } = await approve.boundingBox();
  assert.ok(height >= 44 && y + height <= 844, "the button is large and visible");
  assert.ok((await tab.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0);
  await approve.tap();
  await tab.getByText("I wrote it").waitFor();
  assert.deepEqual((await decisions(id))[0].input, { path: "notes.txt", content: "from a phone\nwith two lines" });
  // The keyboard of the phone stays closed.
  assert.notEqual(await tab.evaluate(() => document.activeElement.id), "message");
  await browser.close(tab);
});

test("Enter starts a new line on a phone", { skip: isFirefox }, async () => {
  const tab = await browser.tab("", { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  await tab.locator("#message").fill("think");
  await tab.locator("#message").press("Enter");
  assert.equal(await tab.locator("#message").inputValue(), "think\n");
  await tab.getByRole("button", { name: "Send" }).tap();
  await tab.getByText("I have thought.").waitFor();
  await browser.close(tab);
});

test("an approval for this session allows the next call of the same kind", async () => {
  const { tab, card, id } = await asked();
  await card.getByRole("button", { name: "Approve for this session" }).click();
  await tab.getByText("I wrote it").waitFor();
  await send(tab, "note it");
  await tab.getByText("I wrote it").nth(1).waitFor();
  assert.equal((await decisions(id)).length, 1);
  await browser.close(tab);
});

test("a call of a sub-agent is decided in the conversation of its parent", async () => {
  const settings = { tools: ["Task", "write_file"] };
  const { tab, card, id } = await asked(settings, "delegate");
  await status(tab, "Waits for you").waitFor();
  const other = await browser.tab();
  await until(async () => /^\(\d+\) /.test(await other.title()), "the title of another tab has the count");
  const line = other.locator(`a[data-id="${id}"]`);
  await line.getByText("Waits for you").waitFor();
  await other.getByLabel("Status", { exact: true }).selectOption("queued");
  await other.getByText("No session matches.").waitFor();
  await other.getByLabel("Status", { exact: true }).selectOption("requires_action");
  await line.getByText("Waits for you").waitFor();
  await card.getByText("A sub-agent wants to call write_file").waitFor();
  await tab.locator(".tool-awaiting_approval", { hasText: "Task" }).waitFor();
  await card.getByRole("button", { name: "Approve", exact: true }).click();
  await tab.getByText("Delegated.").waitFor();
  await line.waitFor({ state: "detached" });
  await browser.close(other);
  await tab.locator("details.tool > summary", { hasText: "Task" }).click();
  await tab.locator(".sub-agent").getByText("Noted.").waitFor();
  await tab.getByRole("list", { name: "Sub-agents" }).getByRole("link").click();
  await tab.getByRole("link", { name: "Parent session" }).click();
  await tab.getByText("Delegated.").waitFor();
  await browser.close(tab);
});

test("the result of a client tool can be written by hand", async () => {
  const tools = [{ name: "open_door", description: "Opens the door.", client: true, input_schema: { type: "object" } }];
  const { id } = await service.session({ tools });
  const tab = await browser.tab(`?s=${id}`);
  await send(tab, "Call open_door with {}");
  await tab.getByLabel("Result for open_door").fill("It is open.");
  await tab.getByRole("button", { name: "Submit" }).click();
  await status(tab, "Done").waitFor();
  await tab.locator("details.tool > summary", { hasText: "open_door" }).click();
  await tab.locator(".tool-body pre", { hasText: "It is open." }).waitFor();
  await browser.close(tab);
});

test("a decision of another tab removes the card here", async () => {
  const { tab, card, id } = await asked();
  const [call] = (await service.api("GET", `/sessions/${id}/approvals`)).data;
  await service.api("POST", `/sessions/${id}/approvals/${call.tool_use_id}`, { decision: "deny" });
  await card.waitFor({ state: "detached" });
  await status(tab, "Done").waitFor();
  await browser.close(tab);
});

test("a session that waits for a decision is counted in the title of every tab", async () => {
  const { tab } = await asked();
  const other = await browser.tab();
  await until(async () => /^\(\d+\) /.test(await other.title()), "the title has the count");
  await other.locator(".session", { hasText: "Waits for you" }).first().waitFor();
  await browser.close(other);
  await browser.close(tab);
});

test("what a run waits for is stated, and a button leads to the decision", async () => {
  const { tab, card } = await asked();
  const waiting = tab.locator(".waiting");
  await waiting.getByText("Waits for your decision.").waitFor();
  await tab.locator("#log").focus();
  await waiting.getByRole("button", { name: "Decide" }).click();
  await until(() => card.evaluate((element) => element === document.activeElement), "the card has the focus");
  await browser.close(tab);
});
