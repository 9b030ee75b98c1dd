// The AI SDK, while the network is down.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { startProxy } from "../support/proxy.mjs";
import { startService, until } from "../support/service.mjs";
import { comparable, history, last, makeChat, texts, versions } from "./chat.mjs";
import { SLOW, script } from "./script.mjs";

let service;
before(async () => {
  service = await startService(script);
});
after(() => service.stop());

test("a network cut of 5 seconds in the middle of an answer [network-cut]", async (context) => {
  await Promise.all(versions.map(async (version) => {
    const proxy = await startProxy(new URL(service.url));
    context.after(proxy.close);
    const cut = { ...service, url: proxy.url };
    const chat = makeChat(version, cut);
    const sent = chat.sendMessage({ text: "Be slow" });
    await until(() => texts(last(chat)).includes("word5"), "the first words");
    const outage = proxy.outage(5000);
    await sent;
    assert.equal(chat.status, "error");
    // The page asks too early, and again when the network is back: the answer is complete in the history.
    await assert.rejects(history(version, cut, chat.id));
    await outage;
    const messages = await history(version, cut, chat.id);
    assert.equal(texts(messages.at(-1)), SLOW);
    const reloaded = makeChat(version, cut, { id: chat.id, messages });
    await reloaded.resumeStream();
    await reloaded.sendMessage({ text: "Hello" });
    assert.deepEqual([reloaded.status, texts(last(reloaded)), reloaded.messages.length], ["ready", "You said Hello.", 4]);
    assert.deepEqual(comparable(await history(version, cut, chat.id)), comparable(reloaded.messages));
  }));
});
