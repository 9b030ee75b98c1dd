// A page in Chromium. TWOSTEP_TEST_CHROMIUM names the program [default: /usr/bin/chromium].

import { chromium } from "playwright-core";

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
];

/** Starts a browser without pages. */
export const startBrowser = () => chromium.launch({ executablePath, args });

/** Calls `use` with an empty page of a new profile. An error of the page's code is an error here. */
export async function withPage(use) {
  const browser = await startBrowser();
  try {
    const tab = await browser.newPage();
    tab.setDefaultTimeout(60_000);
    const failed = new Promise((_, reject) => tab.on("pageerror", reject));
    return await Promise.race([use(tab), failed]);
  } finally {
    await browser.close();
  }
}
