// The AI SDK while the network is down, and behind a proxy.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { startNginx } from "../support/nginx.mjs";
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

test("behind nginx, under a prefix, with compressed streams [proxy]", async (context) => {
  const nginx = await startNginx(service);
  context.after(nginx.stop);
  for (const version of versions) {
    const chat = makeChat(version, nginx);
    const sent = chat.sendMessage({ text: "Be slow" });
    // The text arrives while it is written.
    await until(() => texts(last(chat)).includes("word5"), "the first words");
    assert.ok(!texts(last(chat)).includes("word39"));
    const reloaded = makeChat(version, nginx, { id: chat.id, messages: await history(version, nginx, chat.id) });
    await Promise.all([sent, reloaded.resumeStream()]);
    assert.deepEqual([texts(last(chat)), texts(last(reloaded))], [SLOW, SLOW]);
    assert.deepEqual(comparable(await history(version, nginx, chat.id)), comparable(chat.messages));
  }
});
