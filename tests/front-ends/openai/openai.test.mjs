// The package `openai` in two versions, against a running service.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import OpenAI6 from "openai6";
import OpenAI7 from "openai7";
import { startNginx } from "../support/nginx.mjs";
import { startProxy } from "../support/proxy.mjs";
import { startService, until } from "../support/service.mjs";
import { SLOW, script } from "./script.mjs";

const PIXEL =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const LOOKUP = {
  type: "function",
  function: { name: "lookup", description: "Looks up a word.", parameters: { type: "object", properties: { word: { type: "string" } } } },
};
const user = (content) => ({ role: "user", content });

let service;
before(async () => {
  service = await startService(script);
});
after(() => service.stop());

/** The runs of the session with this external id. */
const runsOf = async (name, { url, headers } = service) => {
  const get = async (path) => await (await fetch(`${url}/v1/${path}`, { headers })).json();
  const [session] = (await get(`sessions?external_id=${name}`)).data;
  return session ? (await get(`sessions/${session.id}/runs`)).data : [];
};

/** The contents of the messages of a session. */
const contentsOf = async (session) => {
  const page = await fetch(`${service.url}/v1/sessions/${session}/messages`, { headers: service.headers });
  return (await page.json()).data.map(({ message }) => message.content);
};

for (const { version, OpenAI } of [{ version: 6, OpenAI: OpenAI6 }, { version: 7, OpenAI: OpenAI7 }]) {
  const clientOf = (headers = {}, { url, key } = service, defaultQuery = {}) =>
    new OpenAI({ apiKey: key, baseURL: `${url}/openai/v1`, defaultHeaders: headers, defaultQuery });
  /** The conversation goes on after its connection was lost in the middle of an answer. */
  const survives = async (from, lose) => {
    const name = crypto.randomUUID();
    const client = clientOf({ "X-Session-Id": name }, from, { on_disconnect: "continue" });
    const messages = [user("Be slow")];
    const stream = await client.chat.completions.create({ model: "default", messages, stream: true });
    let lost;
    let text = "";
    await assert.rejects(async () => {
      for await (const chunk of stream) {
        text += chunk.choices[0]?.delta.content ?? "";
        if (text.includes("word3")) lost ??= lose();
      }
    });
    assert.ok(text.length < SLOW.length);
    await lost;
    await until(async () => (await runsOf(name, from))[0].status === "completed", "the end of the run");
    assert.equal((await runsOf(name, from))[0].output_text, SLOW);
    messages.push({ role: "assistant", content: text }, user("Hello"));
    const next = await client.chat.completions.create({ model: "default", messages });
    assert.equal(next.choices[0].message.content, "You said Hello.");
    assert.equal((await runsOf(name, from)).length, 2);
  };

  describe(`version ${version}`, () => {
    test("a completion, and the models [text]", async () => {
      const client = clientOf();
      const completion = await client.chat.completions.create({ model: "default", messages: [user("Hello")] });
      assert.equal(completion.choices[0].message.content, "You said Hello.");
      assert.ok(completion.usage.total_tokens > 0);
      const models = [];
      for await (const model of client.models.list()) models.push(model.id);
      assert.equal(models[0], "default");
      assert.equal((await client.models.retrieve("default")).id, "default");
    });

    test("a stream with a tool of the service and usage [tools]", async () => {
      const stream = clientOf().chat.completions.stream({
        model: "default",
        messages: [user("Tell me the time")],
        stream_options: { include_usage: true },
      });
      const completion = await stream.finalChatCompletion();
      assert.equal(completion.choices[0].message.content, "I look.\n\nIt is late.");
      assert.equal(completion.choices[0].finish_reason, "stop");
      assert.ok((await stream.totalUsage()).completion_tokens > 0);
    });

    test("parallel calls, one of which fails [parallel-tools]", async () => {
      const request = clientOf().chat.completions.create({ model: "default", messages: [user("Use two tools")] });
      const { data, response } = await request.withResponse();
      assert.equal(data.choices[0].message.content, "Done with both.");
      const [, , results] = await contentsOf(response.headers.get("x-session-id"));
      assert.deepEqual(results.map(({ type, is_error = false }) => [type, is_error]), [["tool_result", false], ["tool_result", true]]);
    });

    test("parallel tools of the client, run by the package [client-tool]", async () => {
      const words = [];
      const lookup = {
        type: "function",
        function: {
          ...LOOKUP.function,
          parse: JSON.parse,
          function: ({ word }) => {
            words.push(word);
            return `a ${word}`;
          },
        },
      };
      const messages = [user("Please look up two words")];
      const runner = clientOf().chat.completions.runTools({ model: "default", messages, tools: [lookup], stream: true });
      assert.equal(await runner.finalContent(), "They mean a ledger\n\na journal");
      assert.deepEqual(words, ["ledger", "journal"]);
    });

    test("a transcript without a name, and one with the header of Open WebUI [regenerate]", async () => {
      for (const headers of [{}, { "X-OpenWebUI-Chat-Id": crypto.randomUUID() }]) {
        const client = clientOf(headers);
        const messages = [user(`Hello ${crypto.randomUUID()}`)];
        const say = async () => {
          const { data, response } = await client.chat.completions.create({ model: "default", messages }).withResponse();
          messages.push(data.choices[0].message);
          return response.headers.get("x-session-id");
        };
        const session = await say();
        messages.push(user("Again"));
        assert.equal(await say(), session);
        // The last answer again.
        messages.pop();
        assert.notEqual(await say(), session);
      }
    });

    test("an edited message, and the history with it [edit, history]", async () => {
      const client = clientOf({ "X-OpenWebUI-Chat-Id": crypto.randomUUID() });
      const say = async (...messages) => {
        const { data, response } = await client.chat.completions.create({ model: "default", messages }).withResponse();
        return { session: response.headers.get("x-session-id"), answer: data.choices[0].message };
      };
      const [first, second] = [user("Hello"), user("Again")];
      const { session, answer } = await say(first);
      await say(first, answer, second);
      const fork = await say(first, answer, user("Otherwise"));
      assert.notEqual(fork.session, session);
      assert.equal(fork.answer.content, "You said Otherwise.");
      // What the client sends again is the history of the fork, and changes nothing.
      const last = await say(first, answer, user("Otherwise"), fork.answer, user("More"));
      assert.equal(last.session, fork.session);
      const texts = (await contentsOf(last.session)).map((content) => content.map((block) => block.text).join(""));
      const expected = ["Hello", "You said Hello.", "Otherwise", "You said Otherwise.", "More", "You said More."];
      assert.deepEqual(texts, expected);
    });

    test("a title of Open WebUI is no turn", async () => {
      const name = crypto.randomUUID();
      const client = clientOf({ "X-OpenWebUI-Chat-Id": name });
      await client.chat.completions.create({ model: "default", messages: [user("Hello")] });
      const task = "### Task:\nGenerate a concise, 3-5 word title.\n### Chat History:\n<chat_history>\nUSER: Hello\n</chat_history>";
      const title = await client.chat.completions.create({ model: "default", messages: [user(task)], max_completion_tokens: 1000 });
      assert.equal(JSON.parse(title.choices[0].message.content).title, "A title");
      assert.equal((await runsOf(name)).length, 1);
    });

    test("stop [stop]", async () => {
      const name = crypto.randomUUID();
      const stream = await clientOf({ "X-Session-Id": name }).chat.completions.create({
        model: "default",
        messages: [user("Be slow")],
        stream: true,
      });
      let text = "";
      for await (const chunk of stream) {
        text += chunk.choices[0]?.delta.content ?? "";
        if (text.includes("word3")) stream.controller.abort();
      }
      assert.ok(text.length < SLOW.length);
      await until(async () => (await runsOf(name))[0].status === "cancelled", "the end of the run");
    });

    test("errors [error]", async () => {
      const client = clientOf();
      const fails = async (body, status, code) => {
        await assert.rejects(client.chat.completions.create({ model: "default", messages: [user("Hello")], ...body }), (error) => {
          assert.deepEqual([error.status, error.code], [status, code]);
          return true;
        });
      };
      await fails({ model: "unknown" }, 404, "model_not_found");
      await fails({ messages: [] }, 422, "validation_failed");
      await fails({ messages: [user("Please break")] }, 502, "run_failed");
      const stream = await client.chat.completions.create({ model: "default", messages: [user("Please break")], stream: true });
      await assert.rejects(async () => {
        for await (const chunk of stream) assert.ok(chunk.id);
      }, /invalid_request_error/);
      const stranger = new OpenAI({ apiKey: "wrong", baseURL: `${service.url}/openai/v1` });
      await assert.rejects(stranger.models.list(), (error) => error.status === 401 && error.type === "authentication_error");
    });

    test("an image [images]", async () => {
      const content = [{ type: "text", text: "Which image?" }, { type: "image_url", image_url: { url: PIXEL } }];
      const completion = await clientOf().chat.completions.create({ model: "default", messages: [user(content)] });
      assert.equal(completion.choices[0].message.content, "A nice picture.");
    });

    test("a restart of the service in the middle of an answer [restart]", async () => {
      const own = await startService(script);
      try {
        await survives(own, own.restart);
      } finally {
        await own.stop();
      }
    });

    test("a network cut of 5 seconds in the middle of an answer [network-cut]", async (context) => {
      const proxy = await startProxy(new URL(service.url));
      context.after(proxy.close);
      await survives({ ...service, url: proxy.url }, () => proxy.outage(5000));
    });

    test("behind nginx, under a prefix, with compressed streams [proxy]", async (context) => {
      const nginx = await startNginx(service);
      context.after(nginx.stop);
      const stream = await clientOf({}, nginx).chat.completions.create({ model: "default", messages: [user("Be slow")], stream: true });
      let text = "";
      const sizes = [];
      for await (const chunk of stream) {
        text += chunk.choices[0]?.delta.content ?? "";
        sizes.push(text.length);
      }
      assert.equal(text, SLOW);
      assert.ok(new Set(sizes).size > 10, "the text arrives in parts");
    });
  });
}
