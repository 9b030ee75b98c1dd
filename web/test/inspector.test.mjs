import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { Browser, isFirefox, send, status } from "./browser.mjs";
import { Service, until } from "./service.mjs";

let service;
let browser;

before(async () => {
  service = await Service.start({
    prices: { simulator: { input: 3_000_000, output: 15_000_000, cache_write: 3_750_000, cache_read: 300_000 } },
  });
  browser = await Browser.start(service);
});
after(async () => {
  await browser?.stop();
  await service?.stop();
});

/** Opens a new session with the inspector, and sends a message. */
async function inspected(text, options = {}) {
  const { id } = await service.session();
  const tab = await browser.tab(`?s=${id}`, options);
  await tab.getByRole("button", { name: "Inspect" }).click();
  await send(tab, text);
  await status(tab, "Done").waitFor();
  const show = (name) => tab.locator(".inspector").getByRole("button", { name, exact: true }).click();
  return { tab, id, show };
}

test("the timeline shows the requests to the model and the tools of a run with their times", async () => {
  const { tab } = await inspected("two at once");
  const rows = tab.locator(".timeline tbody tr");
  for (const kind of ["model", "tool"]) {
    await until(async () => (await tab.locator(`.span-${kind}`).count()) === 2, `two spans of the kind ${kind}`);
  }
  assert.equal(await rows.filter({ hasText: "Model request: simulator" }).count(), 2);
  for (const tool of ["list_files", "get_time"])
    await rows
      .filter({ hasText: tool })
      .getByText(/^\d+ ms$/)
      .first()
      .waitFor();
  await browser.close(tab);
});

test("the ids of the run and the session are shown, for the log and the API", async () => {
  const { tab, id, show } = await inspected("think");
  const [run] = (await service.api("GET", `/sessions/${id}/runs`)).data;
  await tab.locator(".inspector .id", { hasText: run.id }).waitFor();
  await show("Events");
  await tab.locator(".inspector .id", { hasText: id }).waitFor();
  await browser.close(tab);
});

test("the timeline shows the retries of a request", async () => {
  const { tab } = await inspected("overloaded");
  await tab.locator(".span-retry", { hasText: "Retry 1" }).waitFor();
  await browser.close(tab);
});

test("the timeline shows for how long a run has waited for a decision", async () => {
  const { id } = await service.session({ permission_mode: "default" });
  await service.ask(id, "note it");
  const tab = await browser.tab(`?s=${id}`);
  await tab.getByRole("button", { name: "Inspect" }).click();
  const wait = tab.locator(".span-wait", { hasText: "Wait for a decision" });
  await wait.locator("td", { hasText: "…" }).waitFor();
  await tab.getByRole("button", { name: "Approve", exact: true }).click();
  await wait
    .locator("td", { hasText: /\d s|\d ms/ })
    .nth(1)
    .waitFor();
  await tab.locator(".span-model").nth(1).waitFor();
  assert.equal(await tab.locator(".span-takeover").count(), 0);
  await browser.close(tab);
});

test("the usage shows four kinds of tokens, the share of the cache and the cost", async () => {
  const { tab, id, show } = await inspected("think");
  await show("Usage");
  const table = tab.locator("table.buckets").first();
  const { usage, cost } = await service.api("GET", `/sessions/${id}`);
  for (const [name, count] of [
    ["Input, uncached", usage.input_tokens],
    ["Written to the cache", usage.cache_creation_input_tokens],
    ["Read from the cache", usage.cache_read_input_tokens],
    ["Output", usage.output_tokens],
  ]) {
    const row = table.locator("tr", { hasText: name }).first();
    assert.equal((await row.locator("td").textContent()).replaceAll(",", ""), String(count), name);
  }
  const shown = await table.locator("tr", { hasText: "Cost" }).locator("td").textContent();
  assert.equal(Number(shown.replace("$", "")), cost / 1e6);
  await tab.getByRole("button", { name: "Check the session" }).click();
  await tab.getByText("✓ Consistent").waitFor();
  await browser.close(tab);
});

test("a request to the model is shown with its hashes and its exact body, and copied as curl", async () => {
  const { tab, id, show } = await inspected("think", { permissions: ["clipboard-read", "clipboard-write"] });
  await show("Requests");
  const request = tab.locator("details.request");
  await request.locator("summary").click();
  await request.locator("pre", { hasText: '"role": "user"' }).waitFor();
  for (const part of ["tools", "system", "messages"]) await request.locator(".hashes", { hasText: part }).waitFor();
  await request.getByRole("button", { name: "Copy as curl" }).click();
  await tab.getByRole("status").getByText("Copied").waitFor({ state: "attached" });
  const copied = await tab.evaluate(() => navigator.clipboard.readText());
  assert.ok(copied.startsWith(`curl -sN '${service.url}/v1/sessions/${id}/runs/run_`), copied);
  assert.equal(copied.includes("tsk_"), false, "a copied command contains no key");
  await browser.close(tab);
});

test("a run that settles within one frame is shown", async () => {
  const { id } = await service.session();
  const tab = await browser.tab();
  await tab.addInitScript(() => {
    globalThis.requestAnimationFrame = (show) => setTimeout(() => show(performance.now()), 1000);
  });
  await tab.goto(`${service.url}/app/?s=${id}`);
  await tab.getByRole("button", { name: "Inspect" }).click();
  await tab.locator(".inspector").getByText("Nothing to show yet.").waitFor();
  await service.ask(id, "think");
  await tab.locator(".span-model").waitFor();
  await browser.close(tab);
});

test("the place where the cached prefix ends is named at its request", async () => {
  const { tab, show } = await inspected("think");
  // The simulator has no cache that a changed message could break.
  await tab.route("**/events?*types=span.model_request_end*", async (route) => {
    const response = await route.fetch();
    const page = await response.json();
    for (const event of page.data) event.prefix_changed = { level: "messages", index: 3 };
    await route.fulfill({ response, json: page });
  });
  await show("Requests");
  await tab.getByText("The cached prefix ends here: message 3 changed").waitFor();
  await browser.close(tab);
});

/** A message that brings a tool of its own changes the tools of the session's requests. */
async function withBrokenCache() {
  const { id } = await service.session();
  await service.ask(id, "show everything");
  const tools = [{ name: "open_door", description: "Opens the door.", input_schema: { type: "object" }, client: true }];
  const { id: run } = await service.api("POST", `/sessions/${id}/messages`, { content: "show everything", tools });
  const isDone = async () => (await service.api("GET", `/sessions/${id}/runs/${run}`)).status === "completed";
  await until(isDone, "the run settles");
  const tab = await browser.tab(`?s=${id}`);
  await tab.getByRole("button", { name: "Inspect" }).click();
  const show = (name) => tab.locator(".inspector").getByRole("button", { name, exact: true }).click();
  return { tab, show };
}

test("the timeline names the request that lost the cache, and the reason", async () => {
  const { tab } = await withBrokenCache();
  await tab.locator(".span-model").getByText("The cached prefix ends here: the tools changed").waitFor();
  await browser.close(tab);
});

test("a request is compared with the one before, also of another run", async () => {
  const { tab, show } = await withBrokenCache();
  await show("Requests");
  const request = tab.locator("details.request");
  await request.locator("summary").getByText("the tools changed").click();
  await request.getByRole("button", { name: "Compare with the request before" }).click();
  await request.locator(".diff .added", { hasText: '"name": "open_door"' }).waitFor();
  assert.equal(await request.locator(".diff", { hasText: "cache_control" }).count(), 0);
  await tab.locator(".inspector select").selectOption({ index: 1 });
  await request.locator("summary").first().click();
  await request.getByRole("button", { name: "Compare with the request before" }).click();
  await request.getByText("There is no earlier request.").waitFor();
  await browser.close(tab);
});

test("the tries of a request show what the model's server answered", async () => {
  // The simulator fails the first of identical requests only.
  const { tab, show } = await inspected("overloaded once more");
  await show("Requests");
  await tab.locator("details.request > summary").click();
  await tab.locator(".tries li", { hasText: "529 · overloaded_error" }).waitFor();
  await browser.close(tab);
});

test("a filter finds an old event that is not in the list yet, and new events join the list", async () => {
  const { id } = await service.session();
  for (let turn = 0; turn < 12; turn++) await service.ask(id, turn === 0 ? "think" : "two at once");
  const tab = await browser.tab(`?s=${id}`);
  await tab.getByRole("button", { name: "Inspect" }).click();
  await tab.locator(".inspector").getByRole("button", { name: "Events", exact: true }).click();
  const events = tab.locator("details.event");
  await until(async () => (await events.count()) === 100, "the first page");
  await tab.getByLabel("Filter by type or text").fill("agent.thinking");
  await until(async () => (await events.count()) === 1, "the event of the first turn");
  await tab.getByLabel("Filter by type or text").fill("nothing like it");
  await tab.getByText("No event matches.").waitFor();
  await tab.getByLabel("Filter by type or text").fill("");
  const all = await events.count();
  assert.ok(all > 100);
  await send(tab, "write slowly");
  // While the run works: its start, and all events that were listed before.
  await until(async () => (await events.count()) > all + 2, "the events of the run");
  await status(tab, "Working").waitFor();
  await tab.keyboard.press("Escape");
  await status(tab, "Stopped").waitFor();
  await browser.close(tab);
});

test("what was copied is confirmed for all readers", async () => {
  const { tab, show } = await inspected("think", isFirefox ? {} : { permissions: ["clipboard-write"] });
  await show("Events");
  await tab.locator(".inspector").getByRole("button", { name: "Copy as curl" }).click();
  await tab.locator(".toast", { hasText: "Copied" }).waitFor();
  await tab.locator(".toast").waitFor({ state: "detached" });
  await browser.close(tab);
});

test("the raw events are listed, filtered and opened", async () => {
  const { tab, show } = await inspected("two at once");
  await show("Events");
  const events = tab.locator("details.event");
  await events.first().waitFor();
  const all = await events.count();
  await tab.getByLabel("Filter by type or text").fill("agent.tool_result");
  await until(async () => (await events.count()) === 2, "two results");
  assert.ok(all > 10);
  await events.first().locator("summary").click();
  await events.first().locator("pre", { hasText: '"duration_ms"' }).waitFor();
  await browser.close(tab);
});

// The driver of Firefox does not report downloads.
test("a session is exported as JSON lines and as Markdown", { skip: isFirefox }, async () => {
  const { tab, id } = await inspected("think");
  for (const [name, ending, text] of [
    ["Export: JSON", "jsonl", '"type":"end"'],
    ["Export: Markdown", "md", "I have thought"],
  ]) {
    await tab.getByRole("button", { name: "More", exact: true }).click();
    const [download] = await Promise.all([tab.waitForEvent("download"), tab.getByRole("button", { name }).click()]);
    assert.equal(download.suggestedFilename(), `${id}.${ending}`);
    assert.ok((await readFile(await download.path(), "utf8")).includes(text));
  }
  await browser.close(tab);
});

test("the inspector shows that it loads, and not that there is nothing", async () => {
  const { tab, show } = await inspected("think");
  let release;
  const isReleased = new Promise((resolve) => (release = resolve));
  await tab.route("**/requests?*", async (route) => {
    await isReleased;
    await route.continue();
  });
  await show("Requests");
  await tab.locator(".inspector-body").getByText("Loading").waitFor();
  release();
  await tab.locator("details.request").first().waitFor();
  await browser.close(tab);
});
