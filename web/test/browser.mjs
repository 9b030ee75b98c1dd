// The page in Chromium. TWOSTEP_TEST_CHROMIUM names the program [default: /usr/bin/chromium]. TWOSTEP_TEST_FIREFOX
// names a Firefox to use instead, through WebDriver BiDi, which every Firefox has.

import assert from "node:assert/strict";
import { join } from "node:path";
import { chromium, firefox } from "playwright-core";

/** True if the tests use Firefox. */
export const isFirefox = process.env.TWOSTEP_TEST_FIREFOX !== undefined;
const executablePath = process.env.TWOSTEP_TEST_CHROMIUM ?? "/usr/bin/chromium";
// The tests connect to this machine only, and may run as root.
const args = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--js-flags=--expose-gc",
];

/** A folder with a build of the page that replaces the one in the program, which then need not be built again. */
const dist = process.env.TWOSTEP_PAGE_DIST;

/** Answers requests for the files of the page from the folder, with the policy of the service. */
async function replaceFiles(context, url) {
  const policy = (await fetch(url)).headers.get("content-security-policy");
  await context.route(
    (address) => address.href.startsWith(url),
    (route) => {
      const path = new URL(route.request().url()).pathname.split("/app/")[1] || "index.html";
      return route.fulfill({ path: join(dist, path), headers: { "content-security-policy": policy } });
    },
  );
}

/** A browser whose tabs have the key of a service. Every problem that a tab reports is a failure. */
export class Browser {
  static async start(service) {
    const browser = new Browser();
    browser.service = service;
    browser.program = await (isFirefox
      ? firefox.launch({
          channel: "moz-firefox",
          executablePath: process.env.TWOSTEP_TEST_FIREFOX,
          firefoxUserPrefs: { "ui.prefersReducedMotion": 1 },
        })
      : chromium.launch({ executablePath, args }));
    return browser;
  }

  /** Opens a tab. `path` begins after `/app/`; requests to `without` get no response. */
  async tab(path = "", { key = this.service.key, url = `${this.service.url}/app/`, without, ...options } = {}) {
    const context = await this.program.newContext({
      viewport: { width: 1440, height: 900 },
      locale: "en-US",
      ...options,
    });
    if (dist !== undefined) await replaceFiles(context, url);
    const tab = await context.newPage();
    tab.setDefaultTimeout(30_000);
    tab.problems = [];
    const origin = new URL(url).origin;
    tab.on("pageerror", (error) => tab.problems.push(`error: ${error.message}`));
    tab.on("console", (message) => {
      const text = message.text();
      // A refused or lost request is what some tests are about.
      if (message.type() === "error" && !text.startsWith("Failed to load resource"))
        tab.problems.push(`console: ${text}`);
    });
    tab.on("request", (request) => {
      const address = request.url();
      if (!address.startsWith(`${origin}/`) && !address.startsWith("blob:")) tab.problems.push(`request: ${address}`);
    });
    if (without !== undefined) await tab.route(without, () => {});
    // The driver of Firefox emulates no preferences of the system.
    if (isFirefox && options.colorScheme !== undefined) await tab.addInitScript(chooseTheme, options.colorScheme);
    if (key !== null) await tab.addInitScript(keepKey, key);
    await tab.goto(url + path);
    return tab;
  }

  /** Closes a tab that has reported no problems. */
  async close(tab) {
    assert.deepEqual(tab.problems, []);
    await tab.context().close();
  }

  stop() {
    return this.program.close();
  }
}

/** Enters the key. The empty page of a new tab has no storage. */
function keepKey(key) {
  if (self.origin !== "null") sessionStorage.setItem("twostep.key", key);
}

function chooseTheme(theme) {
  if (self.origin !== "null") localStorage.setItem("twostep.theme", theme);
}

/** The status of the open session, as the header shows it. */
export const status = (tab, text) => tab.locator(".thread-title .note", { hasText: text });

/** Sends a message with the keyboard. */
export async function send(tab, text) {
  await tab.locator("#message").fill(text);
  await tab.locator("#message").press("Enter");
}
