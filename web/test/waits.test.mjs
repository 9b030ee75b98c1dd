import { after, before, test } from "node:test";
import { Browser, send, status } from "./browser.mjs";
import { Service } from "./service.mjs";

let service;
let browser;

before(async () => {
  service = await Service.start({ args: ["--no-worker"] });
  browser = await Browser.start(service);
});
after(async () => {
  await browser?.stop();
  await service?.stop();
});

test("a run that no worker executes states what it waits for, and is stopped with the button next to it", async () => {
  const tab = await browser.tab();
  await send(tab, "think");
  const waiting = tab.locator(".waiting");
  await waiting.getByText("Waits for a free worker.").waitFor();
  await waiting.getByText(/Queued: position 1 of 1/).waitFor();
  await waiting.getByText("Why?").click();
  await waiting.getByText("no worker has claimed it yet").waitFor();
  await waiting.getByRole("button", { name: "Stop" }).click();
  await status(tab, "Stopped").waitFor();
  await browser.close(tab);
});
