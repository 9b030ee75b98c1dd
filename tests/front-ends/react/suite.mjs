// The packages @twostep/react and @twostep/client in Chromium, against a running service: the tests of the page
// with the hooks and of the page with assistant-ui.

import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { build } from "esbuild";
import { SLOW, script as shared } from "../ai-sdk/script.mjs";
import { servePages, startTabs } from "../support/pages.mjs";
import { startNginx } from "../support/nginx.mjs";
import { startProxy } from "../support/proxy.mjs";
import { startService } from "../support/service.mjs";

export const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const LOOKUP = { name: "lookup", description: "Looks up a word.", input_schema: { type: "object" }, client: true };
const SESSION = { tools: ["read_file", "write_file", "get_time", "Task", LOOKUP], permission_mode: "default" };
const DELEGATION = { description: "a file", prompt: "Please write", subagent_type: "general" };
const delegation = [
  { content: [{ type: "tool_use", name: "Task", input: DELEGATION }] },
  { content: [{ type: "text", text: "The sub-agent said: {{results}}" }] },
];
const script = { conversations: [{ when: "delegate", replies: delegation }, ...shared.conversations] };

let pages;
export let tabs;
let service;

/** Builds and serves a page, and starts the browser and the service. */
async function start(page) {
  const { outputFiles } = await build({
    entryPoints: [new URL(`page/${page}.jsx`, import.meta.url).pathname],
    bundle: true, format: "esm", jsx: "automatic", write: false, logLevel: "error",
    define: { "process.env.NODE_ENV": '"production"' },
  });
  pages = await servePages({ [page]: outputFiles[0].text });
  [tabs, service] = await Promise.all([startTabs(), startService(script, ["--cors-origins", pages.origin])]);
}

export async function createSession(at = service, settings = SESSION) {
  const response = await fetch(`${at.url}/v1/sessions`, {
    method: "POST",
    headers: { ...at.headers, "content-type": "application/json" },
    body: JSON.stringify(settings),
  });
  assert.equal(response.status, 201, await response.clone().text());
  return (await response.json()).id;
}

export const address = (name, id, settings = {}, at = service) => {
  const all = { url: at.url, key: service.key, session: SESSION, pixel: PIXEL, ...settings };
  return `${pages.origin}/${name}.html?${id === undefined ? "" : `id=${id}`}#${encodeURIComponent(JSON.stringify(all))}`;
};

/** The page of a new session. */
export async function open(name, at = service) {
  return tabs.open(address(name, await createSession(at), at === service ? {} : { key: at.key }, at));
}

export const send = async (tab, text) => {
  await tab.getByLabel("Message").fill(text);
  await tab.getByRole("button", { name: "Send", exact: true }).click();
};
export const answer = (tab) => tab.locator("[data-role=assistant]").last();
export const says = (tab, text) => answer(tab).getByText(text).waitFor();
export const click = (tab, name) => tab.getByRole("button", { name, exact: true }).last().click();
export const count = (tab) => tab.locator("[data-role]").count();
const toolState = (tab, name, state) => tab.locator(`[data-tool=${name}][data-state=${state}]`).waitFor();
const inputOf = async (tab, name) => JSON.parse(await tab.locator(`[data-tool=${name}]`).getAttribute("data-input"));
/** The image of the first message, as the service has it. */
export async function imageOf(tab) {
  const id = new URL(tab.url()).searchParams.get("id");
  const response = await fetch(`${service.url}/v1/sessions/${id}/messages`, { headers: service.headers });
  return (await response.json()).data[0].message.content[1].source.data;
}

/** The whole slow answer, once. */
async function saysAll(tab) {
  await says(tab, SLOW.trim());
  assert.deepEqual([await count(tab), (await answer(tab).textContent()).match(/word0 /g).length], [2, 1]);
}

/** Tests a page. `door` is its prefix in the names of cases. */
export function testPage(page, door = "") {
  before(() => start(page));
  after(async () => {
    pages?.close();
    await Promise.all([tabs?.close(), service?.stop()]);
  });
  afterEach(() => assert.deepEqual(tabs.errors.splice(0), []));

  const isHooks = page === "hooks";
  const done = isHooks ? "done" : "complete";

  test(`text, and the history after a reload [${door}text, history]`, async () => {
    const tab = await open(page);
    await send(tab, "Hello");
    await says(tab, "You said Hello.");
    await send(tab, "Again");
    await says(tab, "You said Again.");
    await tab.reload();
    await says(tab, "You said Again.");
    assert.equal(await count(tab), 4);
  });

  test(`parallel tools, one of which fails [${door}tools, parallel-tools]`, async () => {
    const tab = await open(page);
    await send(tab, "Use two tools");
    await says(tab, "Done with both.");
    await toolState(tab, "get_time", done);
    if (isHooks) await toolState(tab, "read_file", "failed");
    else assert.equal(await tab.locator("[data-tool=read_file]").getAttribute("data-error"), "true");
    assert.deepEqual(await inputOf(tab, "get_time"), { timezone: "Europe/Oslo" });
  });

  test(`an allowed call, after a reload while it waits [${door}allow]`, async () => {
    const tab = await open(page);
    await send(tab, "Please write");
    await tab.getByText('"path": "a.txt"').or(tab.getByText("a.txt")).first().waitFor();
    await tab.reload();
    await click(tab, "Allow");
    await says(tab, /^It said:/);
    await toolState(tab, "write_file", done);
  });

  test(`a denied call [${door}deny]`, async () => {
    const tab = await open(page);
    await send(tab, "Please write");
    await click(tab, "Deny");
    await says(tab, /^It said:.*Not now/);
    if (isHooks) await toolState(tab, "write_file", "denied");
    else assert.equal(await tab.locator("[data-tool=write_file]").getAttribute("data-denied"), "true");
  });

  test(`a call that is allowed with another input [${door}edited-input]`, async () => {
    const tab = await open(page);
    await send(tab, "Please write");
    await click(tab, "Allow edited");
    await says(tab, /^It said:/);
    assert.deepEqual(await inputOf(tab, "write_file"), { path: "b.txt", content: "edited" });
  });

  test(`a tool of the client [${door}client-tool]`, async () => {
    const tab = await open(page);
    await send(tab, "Please look up a word");
    if (!isHooks) await click(tab, "Answer");
    await says(tab, 'It means {"meaning":"a ledger"}');
  });

  test(`an error in the middle, and another message [${door}error]`, async () => {
    const tab = await open(page);
    await send(tab, "Please break");
    await tab.locator("[data-part=error]").waitFor();
    await says(tab, "I begin.");
    await send(tab, "Hello");
    await says(tab, "You said Hello.");
  });

  test(`stop [${door}stop]`, async () => {
    const tab = await open(page);
    await send(tab, "Be slow");
    await says(tab, "word3");
    await click(tab, "Stop");
    await send(tab, "Hello");
    await says(tab, "You said Hello.");
    assert.ok(!(await tab.locator("[data-role=assistant]").first().textContent()).includes("word39"));
  });

  test(`a reload in the middle of an answer [${door}reload]`, async () => {
    const tab = await open(page);
    await send(tab, "Be slow");
    await says(tab, "word5");
    await tab.reload();
    await says(tab, "word5");
    await saysAll(tab);
  });

  test(`a second tab, which sends the next message [${door}second-tab]`, async () => {
    const tab = await open(page);
    await send(tab, "Be slow");
    await says(tab, "word5");
    const second = await tab.again();
    await Promise.all([saysAll(tab), saysAll(second)]);
    await send(second, "Hello");
    await Promise.all([says(tab, "You said Hello."), says(second, "You said Hello.")]);
  });

  test(`a restart of the service in the middle of an answer [${door}restart]`, async () => {
    const own = await startService(script, ["--cors-origins", pages.origin]);
    try {
      const tab = await open(page, own);
      await send(tab, "Be slow");
      await says(tab, "word5");
      await own.restart();
      await saysAll(tab);
      await send(tab, "Hello");
      await says(tab, "You said Hello.");
    } finally {
      await own.stop();
    }
  });

  test(`a network cut of 5 seconds, in which a message is sent [${door}network-cut]`, async (context) => {
    const proxy = await startProxy(new URL(service.url));
    context.after(proxy.close);
    const tab = await open(page, { ...service, url: proxy.url });
    await send(tab, "Be slow");
    await says(tab, "word5");
    const outage = proxy.outage(5000);
    if (isHooks) {
      await send(tab, "Hello");
      await tab.locator("[data-state=sending]").waitFor();
      assert.equal(await tab.locator("main").getAttribute("data-connection") === "open", false);
    }
    await outage;
    if (!isHooks) {
      await saysAll(tab);
      await send(tab, "Hello");
    }
    await says(tab, "You said Hello.");
    assert.equal(await count(tab), 4);
    await tab.getByText(SLOW.trim()).waitFor();
  });

  test(`behind nginx, under a prefix, with compressed streams [${door}proxy]`, async (context) => {
    const nginx = await startNginx(service);
    context.after(nginx.stop);
    const tab = await open(page, nginx);
    await send(tab, "Be slow");
    // The text arrives while it is written.
    await says(tab, "word5");
    assert.ok(!(await answer(tab).textContent()).includes("word39"));
    await saysAll(tab);
  });

  test(`an edited message continues in a fork, with the messages before it [${door}edit]`, async () => {
    const tab = await open(page);
    await send(tab, "One");
    await says(tab, "You said One.");
    await send(tab, "Two");
    await says(tab, "You said Two.");
    const before = new URL(tab.url()).search;
    await tab.locator("[data-role=user]").last().hover();
    await click(tab, "Edit");
    if (!isHooks) {
      await tab.getByLabel("Edited").fill("Edited");
      await click(tab, "Save");
    }
    await says(tab, "You said Edited.");
    assert.notEqual(new URL(tab.url()).search, before);
    assert.equal(await count(tab), 4);
    await tab.getByText("You said One.").waitFor();
    await tab.reload();
    await says(tab, "You said Edited.");
    assert.equal(await count(tab), 4);
  });

  test(`a regenerated answer [${door}regenerate]`, async () => {
    const tab = await open(page);
    await send(tab, "One");
    await says(tab, "You said One.");
    const before = new URL(tab.url()).search;
    await click(tab, "Regenerate");
    await tab.waitForURL((url) => url.search !== before);
    await tab.reload();
    await says(tab, "You said One.");
    assert.equal(await count(tab), 2);
  });

  test("threads are created, selected, and archived", async () => {
    const own = await startService(script, ["--cors-origins", pages.origin]);
    try {
      const tab = await tabs.open(address(page, undefined, { list: true, key: own.key }, own));
      const threads = tab.locator("[data-thread]");
      await click(tab, "New");
      await threads.first().waitFor();
      await send(tab, "Hello");
      await says(tab, "You said Hello.");
      // Another client's session appears at once.
      await createSession(own, { ...SESSION, title: "Of another client" });
      await threads.getByText("Of another client").waitFor();
      // The end of the run before may still read its session.
      await new Promise((resolve) => setTimeout(resolve, 1500));
      const reads = [];
      tab.on("request", (request) => reads.push(request.url()));
      await new Promise((resolve) => setTimeout(resolve, 1000));
      assert.deepEqual(reads, [], "the list is followed, not polled");
      if (page === "hooks") {
        await threads.last().getByText("Rename").click();
        await threads.getByText("Renamed").waitFor();
        await threads.first().getByText("Delete").click();
        await threads.getByText("Of another client").waitFor({ state: "detached" });
      } else {
        await threads.getByText("Of another client").click();
        await tab.locator("[data-role=assistant]").waitFor({ state: "detached" });
        await threads.last().getByText("untitled").click();
        await says(tab, "You said Hello.");
      }
      await threads.last().getByText("Archive").click();
      await tab.waitForFunction((left) => document.querySelectorAll("[data-thread]").length === left, page === "hooks" ? 0 : 1);
    } finally {
      await own.stop();
    }
  });
}
