// Pages in Chromium, which call a service of another origin.

import { once } from "node:events";
import { createServer } from "node:http";
import { startBrowser } from "../../browser/browser.mjs";

const page = (script) => `<!doctype html><meta charset="utf-8"><div id="root"></div><script type="module" src="${script}"></script>`;

/** Serves `/NAME.html`, each with the script `/NAME.js` of a map of texts. */
export async function servePages(scripts) {
  const server = createServer(({ url }, response) => {
    const [, name, ending] = /^\/([\w-]+)\.(html|js)/.exec(url) ?? [];
    if (scripts[name] === undefined) return response.writeHead(404).end();
    const type = ending === "js" ? "text/javascript" : "text/html";
    response.writeHead(200, { "content-type": type }).end(ending === "js" ? scripts[name] : page(`/${name}.js`));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { origin: `http://127.0.0.1:${server.address().port}`, close };
}

/** Starts a browser. `open` opens a tab in a profile of its own, `tab.again` another one in the same profile. */
export async function startTabs() {
  const browser = await startBrowser();
  const errors = [];
  const opened = async (context, url) => {
    const tab = await context.newPage();
    tab.setDefaultTimeout(20_000);
    tab.on("pageerror", (error) => errors.push(error));
    await tab.goto(url);
    return Object.assign(tab, { again: () => opened(context, tab.url()) });
  };
  return { errors, open: async (url) => opened(await browser.newContext(), url), close: () => browser.close() };
}
