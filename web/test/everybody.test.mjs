import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { Browser, isFirefox, send, status } from "./browser.mjs";
import { Service, until } from "./service.mjs";

const axe = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
/** The folder for screenshots; none are made without it. */
const folder = process.env.TWOSTEP_PAGE_SCREENSHOTS;

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

/** The rules of WCAG 2.2 AA that the page breaks. */
async function findings(tab) {
  const evaluate = await evaluator(tab);
  await evaluate(await readFile(axe, "utf8"));
  const options = JSON.stringify({ runOnly: { type: "tag", values: tags } });
  return evaluate(`axe.run(document, ${options}).then(({ violations }) => violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary }) => id + ": " + html.slice(0, 200) + " " + failureSummary)))`);
}

/** Runs scripts past the policy of the page: in Chromium in a world of their own. */
async function evaluator(tab) {
  if (isFirefox) return (expression) => tab.evaluate(expression);
  const session = await tab.context().newCDPSession(tab);
  await session.send("Page.enable");
  const { frameTree } = await session.send("Page.getFrameTree");
  const { executionContextId: contextId } = await session.send("Page.createIsolatedWorld", {
    frameId: frameTree.frame.id,
  });
  return async (expression) => {
    const options = { contextId, expression, awaitPromise: true, returnByValue: true };
    return (await session.send("Runtime.evaluate", options)).result.value;
  };
}

const sideways = (tab) => tab.evaluate(() => document.documentElement.scrollWidth - innerWidth);

const picture = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);

/** A session with each kind of entry, which waits for a decision. */
async function fullSession() {
  const session = await service.session({
    title: "A session with everything",
    permission_mode: "default",
    tools: ["list_files", "get_time", "write_file", "TodoWrite"],
  });
  const image = await service.upload(session.id, "dot.png", picture);
  const plan = await service.upload(session.id, "plan.txt", Buffer.from("First this, then that."));
  await service.ask(session.id, [
    { type: "image", source: { type: "file", file_id: image.id } },
    { type: "document", title: "A plan", source: { type: "file", file_id: plan.id } },
  ]);
  for (const text of ["show everything", "think", "two at once", "plan it", "break", "note it"])
    await service.ask(session.id, text);
  return session.id;
}

for (const colorScheme of ["light", "dark"]) {
  for (const width of [390, 800, 1440]) {
    test(`the page is accessible and fits into ${width} pixels with ${colorScheme} colors`, async () => {
      const id = await fullSession();
      const viewport = { width, height: width === 390 ? 844 : 900 };
      const tab = await browser.tab(`?s=${id}`, { colorScheme, viewport });
      await tab.locator("article.approval").waitFor();
      await check("approval");
      await tab.locator("article.approval").getByRole("button", { name: "Approve", exact: true }).click();
      await status(tab, "Done").waitFor();
      for (const summary of await tab.locator("#log details > summary").all()) await summary.click();
      const answer = tab.locator("article.agent").last();
      await answer.getByRole("button", { name: "Good answer" }).click();
      await answer.getByRole("button", { name: "Add a comment" }).click();
      await answer.getByLabel("Comment").fill("It was quick.");
      await check("conversation");
      await tab.getByRole("button", { name: "Inspect" }).click();
      for (const name of ["Events", "Requests", "Usage", "Timeline"]) {
        await tab.locator(".inspector").getByRole("button", { name, exact: true }).click();
        await check(name.toLowerCase());
      }
      await tab.locator(".inspector").getByRole("button", { name: "Close" }).click();
      await tab.goto(`${service.url}/app/`);
      await tab.getByText("it is not a language model").waitFor();
      await tab.getByText("Options").click();
      await check("start");
      await tab.locator("input[type=file]").setInputFiles([
        { name: "dot.png", mimeType: "image/png", buffer: picture },
        { name: "program.bin", mimeType: "image/png", buffer: Buffer.from([0, 1, 2, 255]) },
      ]);
      await tab.locator(".files img").waitFor();
      await tab.locator(".files").getByRole("alert").waitFor();
      await check("files");
      await tab.getByRole("button", { name: "Settings" }).click();
      await check("settings");
      await browser.close(tab);

      async function check(name) {
        if (folder !== undefined) await tab.screenshot({ path: `${folder}/${name}-${width}-${colorScheme}.png` });
        assert.deepEqual(await findings(tab), [], name);
        assert.ok((await sideways(tab)) <= 0, `${name} scrolls sideways`);
      }
    });
  }
}

test("every control can be reached and used with the keyboard alone", async () => {
  const tab = await browser.tab();
  await tab.keyboard.press("Tab");
  assert.equal(await tab.evaluate(() => document.activeElement.textContent), "Skip to the conversation");
  await tab.keyboard.press("Enter");
  assert.equal(await tab.evaluate(() => document.activeElement.id), "message");
  await tab.keyboard.type("two at once");
  await tab.keyboard.press("Enter");
  await tab.getByText("Both are done.").waitFor();
  const unreachable = await tab.evaluate(() => {
    const controls = [...document.querySelectorAll("a[href], button, input, select, textarea, summary")];
    return controls
      .filter((one) => one.tabIndex < 0 && one.checkVisibility())
      .map((one) => one.outerHTML.slice(0, 100));
  });
  assert.deepEqual(unreachable, []);
  await tab.keyboard.press("Control+k");
  assert.equal(await tab.evaluate(() => document.activeElement.id), "search");
  await tab.keyboard.press("Control+/");
  await tab.getByRole("dialog", { name: "Settings" }).waitFor();
  await tab.keyboard.press("Escape");
  await tab.getByRole("dialog", { name: "Settings" }).waitFor({ state: "hidden" });
  await tab.keyboard.press("Control+i");
  assert.equal(await tab.evaluate(() => document.activeElement.id), "message");
  await tab.keyboard.press("Control+Shift+O");
  await tab.getByRole("heading", { name: "What should the agent do?" }).waitFor();
  await browser.close(tab);
});

test("the texts are English or German, as the browser or the user prefers", async () => {
  const tab = await browser.tab("", { locale: "de-DE" });
  await tab.getByRole("heading", { name: "Was soll der Agent tun?" }).waitFor();
  assert.equal(await tab.evaluate(() => document.documentElement.lang), "de");
  await tab.getByRole("button", { name: "Einstellungen" }).click();
  await tab.getByLabel("Sprache").selectOption("en");
  await tab.getByRole("heading", { name: "Settings" }).waitFor();
  await tab.reload();
  await tab.getByRole("heading", { name: "What should the agent do?" }).waitFor();
  await browser.close(tab);
});

test("screen readers hear when the agent works, asks and finishes, and not each token", async () => {
  const { id } = await service.session({ permission_mode: "default" });
  const tab = await browser.tab(`?s=${id}`);
  await status(tab, "Ready").waitFor();
  assert.equal(await tab.getByRole("log").getAttribute("aria-live"), "off");
  await send(tab, "note it");
  const said = tab.locator("[role=status].visually-hidden");
  await until(async () => (await said.textContent()) === "An approval is needed.", "the need is announced");
  await tab.getByRole("button", { name: "Approve", exact: true }).click();
  await until(async () => (await said.textContent()) === "The agent has finished.", "the end is announced");
  await browser.close(tab);
});

test("nothing moves if the user prefers reduced motion", async () => {
  const tab = await browser.tab("", { reducedMotion: "reduce" });
  await send(tab, "write slowly");
  await status(tab, "Working").waitFor();
  const moving = await tab.evaluate(
    () => document.getAnimations().filter(({ playState }) => playState === "running").length,
  );
  assert.equal(moving, 0);
  await tab.keyboard.press("Escape");
  await status(tab, "Stopped").waitFor();
  await browser.close(tab);
});

test("text that the user reads stays in place while new text streams", async () => {
  const tab = await browser.tab("", { viewport: { width: 800, height: 500 } });
  await send(tab, "write slowly");
  await tab.getByText("Paragraph 12 has some text.").waitFor();
  const log = tab.locator("#log");
  await log.hover();
  await tab.mouse.wheel(0, -400);
  await tab.getByRole("button", { name: "Jump to the newest message" }).waitFor();
  const place = await log.evaluate((element) => element.scrollTop);
  await tab.getByText("Paragraph 30 has some text.").waitFor({ state: "attached" });
  assert.equal(await log.evaluate((element) => element.scrollTop), place);
  await tab.getByRole("button", { name: "Jump to the newest message" }).click();
  await tab.getByText("Paragraph 40 has some text.").waitFor();
  await status(tab, "Done").waitFor();
  await until(
    () => log.evaluate((element) => element.scrollHeight - element.scrollTop - element.clientHeight < 2),
    "the end is visible",
  );
  await browser.close(tab);
});
