import { after, before, test } from "node:test";
import { Browser, send, status } from "./browser.mjs";
import { Service } from "./service.mjs";

let service;
let browser;

// The circuit breaker of the model opens: no other test can use the service meanwhile.
before(async () => {
  service = await Service.start();
  browser = await Browser.start(service);
});
after(async () => {
  await browser?.stop();
  await service?.stop();
});

test("an operator sees that the model is down while a run waits for it", async () => {
  // The circuit breaker opens after more failures than one run has tries.
  for (let session = 0; session < 2; session++) {
    const { id } = await service.session();
    await service.api("POST", `/sessions/${id}/messages`, { content: "model is down" });
  }
  const tab = await browser.tab();
  await send(tab, "model is down");
  await tab.locator(".waiting").getByText("Trying the model again").waitFor();
  await tab.getByText("The model does not answer: requests to it pause.").waitFor({ timeout: 60_000 });
  await tab.locator(".waiting").getByText("Waits before it tries the model again.").waitFor();
  await tab.locator(".waiting").getByRole("button", { name: "Stop" }).click();
  await status(tab, "Stopped").waitFor();
  await browser.close(tab);
});
