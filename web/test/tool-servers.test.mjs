import assert from "node:assert/strict";
import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { Browser, send, status } from "./browser.mjs";
import { Service, until } from "./service.mjs";

let folder;
let service;
let browser;

const offer = (...names) => writeFile(join(folder, "tools"), names.join("\n"));

/** Changes the tools of the server, and waits until the service knows them. */
async function change(...names) {
  await offer(...names);
  await until(async () => {
    const { data } = await service.api("GET", "/tools");
    const known = data.map(({ name }) => name).filter((name) => name.startsWith("mcp__library__"));
    return known.toSorted().join() === names.map((name) => `mcp__library__${name}`).join();
  }, "the service knows the tools");
}

/** What the service reports about a tool server. */
async function checkOf(name) {
  const response = await fetch(`${service.url}/readyz`);
  return (await response.json()).checks[`mcp:${name}`]?.status;
}

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "twostep-tools-"));
  await offer("find", "read");
  const program = fileURLToPath(new URL("tool-server.mjs", import.meta.url));
  const library = { command: process.execPath, args: [program, join(folder, "tools")] };
  const broken = { command: "/no/such/program" };
  const file = join(folder, "servers.json");
  await writeFile(file, JSON.stringify({ mcpServers: { library, broken } }));
  service = await Service.start({ args: ["--mcp", file] });
  browser = await Browser.start(service);
});
after(async () => {
  await browser?.stop();
  await service?.stop();
  await rm(folder, { recursive: true, force: true });
});

test("the start lists the MCP servers, with the number of their tools or their failure", async () => {
  const tab = await browser.tab();
  await tab.getByText("Options").click();
  const servers = tab.getByRole("region", { name: "MCP servers" });
  await servers.getByText("library: 2 tools").waitFor();
  await servers.getByText("broken: not connected").waitFor();
  await browser.close(tab);
});

test("a session shows which of its tools a server no longer offers, until it offers them again", async () => {
  const { id } = await service.session({ tools: ["mcp__library__find", "mcp__library__read"] });
  const tab = await browser.tab(`?s=${id}`);
  await send(tab, "think");
  await status(tab, "Done").waitFor();
  const notice = tab.locator(".servers");
  assert.equal(await notice.count(), 0);
  await change("assign", "read");
  await send(tab, "think");
  await notice.getByText("library has changed its tools").click();
  await notice
    .locator("p", { hasText: "No longer offered" })
    .locator("code", { hasText: "mcp__library__find" })
    .waitFor();
  await notice
    .locator("p", { hasText: "Only for new sessions" })
    .locator("code", { hasText: "mcp__library__assign" })
    .waitFor();
  await tab.reload();
  await notice.waitFor();
  await status(tab, "Done").waitFor();
  await change("find", "read");
  await send(tab, "think");
  await notice.waitFor({ state: "detached" });
  await browser.close(tab);
});

test("an unavailable MCP server is named at the start and in the sessions that need it, until it is back", async () => {
  const permissions = [{ tool: "mcp__library__*", decision: "allow" }];
  const { id } = await service.session({ tools: ["mcp__library__find"], permissions });
  const tab = await browser.tab(`?s=${id}`);
  await status(tab, "Ready").waitFor();
  await rename(join(folder, "tools"), join(folder, "gone"));
  await until(async () => (await checkOf("library")) === "warning", "the service misses the server");
  await send(tab, "Call mcp__library__find with {}");
  await status(tab, "Done").waitFor();
  await tab.getByText("The MCP server library is unavailable: its calls fail.").waitFor();
  await tab.goto(`${service.url}/app/`);
  await tab.getByText("Options").click();
  await tab.getByRole("region", { name: "MCP servers" }).getByText("library: not connected").waitFor();
  await tab.goto(`${service.url}/app/?s=${id}`);
  await tab.locator(".troubles").waitFor();
  await rename(join(folder, "gone"), join(folder, "tools"));
  await until(async () => (await checkOf("library")) === "ok", "the service has the server again");
  await tab.locator(".troubles").waitFor({ state: "detached" });
  await browser.close(tab);
});
