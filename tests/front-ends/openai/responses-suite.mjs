// The tests of the Responses of the package `openai`, against a running service.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { startNginx } from "../support/nginx.mjs";
import { startProxy } from "../support/proxy.mjs";
import { startService, until } from "../support/service.mjs";
import { SLOW, script } from "./script.mjs";

const PIXEL =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const LOOKUP = {
  type: "function",
  name: "lookup",
  description: "Looks up a word.",
  parameters: { type: "object", properties: { word: { type: "string" } } },
  strict: false,
};
// The tool that asks for an approval: its agent has the permission mode "default".
const WRITER = "writer";

let service;
before(async () => {
  service = await startService(script);
  const agent = { tools: ["write_file"], permission_mode: "default" };
  const headers = { ...service.headers, "content-type": "application/json" };
  const created = await fetch(`${service.url}/v1/agents/${WRITER}`, { method: "PUT", headers, body: JSON.stringify(agent) });
  assert.equal(created.status, 201);
});
after(() => service.stop());

const of = (response, type) => response.output.filter((item) => item.type === type);
const outputs = (response) =>
  of(response, "function_call").map((call) => ({
    type: "function_call_output",
    call_id: call.call_id,
    output: `a ${JSON.parse(call.arguments).word}`,
  }));

/** Tests this version of the package. */
export function suite(version, OpenAI) {
  const clientOf = ({ url, key } = service) => new OpenAI({ apiKey: key, baseURL: `${url}/openai/v1` });
  const create = (body) => clientOf().responses.create({ model: "default", ...body });

  /** Follows a stream, and continues it after the connection was lost in the middle of the answer. */
  const follow = async (from, lose) => {
    const client = clientOf(from);
    let stream = await client.responses.create({ model: "default", input: "Be slow", stream: true, background: true });
    const [deadline, numbers] = [Date.now() + 45_000, []];
    let [text, id, lost, response] = ["", undefined, undefined, undefined];
    while (!response) {
      try {
        for await (const event of stream) {
          id ??= event.response?.id;
          numbers.push(event.sequence_number);
          if (event.type === "response.output_text.delta") text += event.delta;
          if (event.type === "response.completed") response = event.response;
          if (text.includes("word3")) lost ??= lose();
        }
      } catch (error) {
        assert.ok(lost && Date.now() < deadline, String(error));
      }
      if (response) break;
      await new Promise((resolve) => setTimeout(resolve, 200));
      try {
        stream = await client.responses.retrieve(id, { stream: true, starting_after: numbers.at(-1) });
      } catch (error) {
        assert.ok(Date.now() < deadline, String(error));
        stream = [];
      }
    }
    assert.ok(lost, "the connection was lost");
    await lost;
    assert.equal(text, SLOW);
    assert.deepEqual(numbers, [...new Set(numbers)].sort((a, b) => a - b));
    assert.equal(response.output[0].content[0].text, SLOW);
    const stored = await client.responses.retrieve(id);
    assert.deepEqual(stored.output, response.output);
    return { client, id };
  };

  describe(`responses, version ${version}`, () => {
    test("a response and a conversation [openai-responses: text, history]", async () => {
      const first = await create({ input: "Hello" });
      assert.equal(first.output_text, "You said Hello.");
      assert.ok(first.usage.total_tokens > 0);
      const second = await create({ input: [{ role: "user", content: "Again" }], previous_response_id: first.id });
      assert.equal(second.output_text, "You said Again.");
      assert.equal(second.conversation.id, first.conversation.id);
      const third = await create({ input: "More", conversation: first.conversation.id });
      assert.equal(third.conversation.id, first.conversation.id);
      assert.equal((await clientOf().responses.retrieve(second.id)).output_text, "You said Again.");
      // The transcript of a client that keeps the history itself.
      const input = [{ role: "user", content: `Hello ${crypto.randomUUID()}` }];
      const own = await create({ input, store: false });
      input.push(...own.output, { role: "user", content: "Again" });
      assert.equal((await create({ input, store: false })).conversation.id, own.conversation.id);
    });

    test("a stream with a tool of the service [openai-responses: tools]", async () => {
      const stream = clientOf().responses.stream({ model: "default", input: "Tell me the time" });
      const deltas = [];
      stream.on("response.output_text.delta", ({ delta }) => deltas.push(delta));
      const response = await stream.finalResponse();
      assert.equal(response.status, "completed");
      assert.equal(response.output_text, "I look.It is late.");
      assert.equal(deltas.join(""), response.output_text);
      const [call] = of(response, "mcp_call");
      assert.deepEqual([call.name, call.status, JSON.parse(call.arguments)], ["get_time", "completed", { timezone: "Europe/Oslo" }]);
      assert.ok(call.output);
      // The same stream from the beginning, and its end.
      const replayed = await clientOf().responses.stream({ response_id: response.id }).finalResponse();
      assert.deepEqual(replayed.output, response.output);
      const rest = clientOf().responses.stream({ response_id: response.id, starting_after: 5 });
      const numbers = [];
      for await (const event of rest) numbers.push(event.sequence_number);
      assert.ok(Math.min(...numbers) > 5);
    });

    test("parallel calls, one of which fails [openai-responses: parallel-tools]", async () => {
      const response = await create({ input: "Use two tools" });
      assert.equal(response.output_text, "Done with both.");
      assert.deepEqual(of(response, "mcp_call").map((call) => call.status), ["completed", "failed"]);
    });

    test("parallel tools of the client [openai-responses: client-tool]", async () => {
      const asked = await create({ input: "Please look up two words", tools: [LOOKUP] });
      const answered = await create({ input: outputs(asked), previous_response_id: asked.id, tools: [LOOKUP] });
      assert.equal(answered.output_text, "They mean a ledger\n\na journal");
      const stream = clientOf().responses.stream({ model: "default", input: "Please look up two words", tools: [LOOKUP] });
      const streamed = await stream.finalResponse();
      assert.deepEqual(of(streamed, "function_call").map(({ name }) => name), ["lookup", "lookup"]);
      const next = { model: "default", input: outputs(streamed), previous_response_id: streamed.id };
      const last = await clientOf().responses.stream(next).finalResponse();
      assert.equal(last.output_text, "They mean a ledger\n\na journal");
    });

    test("approvals [openai-responses: allow, deny]", async () => {
      for (const approve of [true, false]) {
        const asked = await create({ model: WRITER, input: "Write a note" });
        const [request] = of(asked, "mcp_approval_request");
        assert.equal(request.name, "write_file");
        const input = [{ type: "mcp_approval_response", approval_request_id: request.id, approve }];
        const stream = clientOf().responses.stream({ model: WRITER, input, previous_response_id: asked.id });
        const answered = await stream.finalResponse();
        assert.equal(answered.output_text, "Noted.");
        assert.equal(of(answered, "mcp_call")[0].status, approve ? "completed" : "failed");
      }
    });

    test("another answer after an earlier response [openai-responses: regenerate, edit]", async () => {
      const first = await create({ input: "Hello" });
      const second = await create({ input: "Again", previous_response_id: first.id });
      for (const input of ["Again", "Otherwise"]) {
        const other = await create({ input, previous_response_id: first.id });
        assert.equal(other.output_text, `You said ${input}.`);
        assert.notEqual(other.conversation.id, second.conversation.id);
      }
    });

    test("stop [openai-responses: stop]", async () => {
      const client = clientOf();
      const ended = async (id) => (await client.responses.retrieve(id)).status === "cancelled";
      const closed = await client.responses.create({ model: "default", input: "Be slow", stream: true });
      let [text, id] = ["", undefined];
      for await (const event of closed) {
        id ??= event.response?.id;
        text += event.type === "response.output_text.delta" ? event.delta : "";
        if (text.includes("word3")) closed.controller.abort();
      }
      assert.ok(text.length < SLOW.length);
      await until(() => ended(id), "the end of the run");
      const background = await client.responses.create({ model: "default", input: "Be slow", background: true });
      const cancelled = await client.responses.cancel(background.id);
      assert.equal(cancelled.status, "cancelled");
    });

    test("errors [openai-responses: error]", async () => {
      const fails = async (body, status, code) => {
        await assert.rejects(create({ input: "Hello", ...body }), (error) => {
          assert.deepEqual([error.status, error.code], [status, code]);
          return true;
        });
      };
      await fails({ model: "unknown" }, 404, "model_not_found");
      await fails({ input: [] }, 422, "validation_failed");
      await fails({ previous_response_id: "resp_1" }, 404, "run_not_found");
      await fails({ input: "Please break" }, 502, "run_failed");
      const response = await clientOf().responses.stream({ model: "default", input: "Please break" }).finalResponse();
      assert.equal(response.status, "failed");
      assert.match(response.error.message, /invalid_request_error/);
      assert.equal(response.output_text, "I begin.");
    });

    test("images and files [openai-responses: images]", async () => {
      const client = clientOf();
      const bytes = Buffer.from(PIXEL.split(",")[1], "base64");
      const image = await client.files.create({ file: new File([bytes], "pixel.png"), purpose: "vision" });
      const note = await client.files.create({ file: new File(["The plan."], "plan.md", { type: "text/markdown" }), purpose: "user_data" });
      assert.deepEqual([image.bytes, image.filename], [bytes.length, "pixel.png"]);
      const content = [
        { type: "input_text", text: "Which image?" },
        { type: "input_image", image_url: PIXEL, detail: "auto" },
        { type: "input_image", file_id: image.id, detail: "auto" },
        { type: "input_file", file_id: note.id },
      ];
      assert.equal((await create({ input: [{ role: "user", content }] })).output_text, "A nice picture.");
      assert.equal((await client.files.retrieve(note.id)).filename, "plan.md");
      assert.equal(await (await client.files.content(note.id)).text(), "The plan.");
      assert.equal((await client.files.delete(note.id)).deleted, true);
      await assert.rejects(client.files.retrieve(note.id), (error) => error.status === 404);
    });

    test("a second reader of the stream [openai-responses: second-tab, reload]", async () => {
      const client = clientOf();
      const { id } = await client.responses.create({ model: "default", input: "Be slow", background: true });
      const readers = [0, 1].map(() => client.responses.stream({ response_id: id }).finalResponse());
      for (const response of await Promise.all(readers)) assert.equal(response.output_text, SLOW);
    });

    test("a restart of the service in the middle of an answer [openai-responses: restart]", async () => {
      const own = await startService(script);
      try {
        await follow(own, own.restart);
      } finally {
        await own.stop();
      }
    });

    test("a network cut of 5 seconds in the middle of an answer [openai-responses: network-cut]", async (context) => {
      const proxy = await startProxy(new URL(service.url));
      context.after(proxy.close);
      await follow({ ...service, url: proxy.url }, () => proxy.outage(5000));
    });

    test("behind nginx, under a prefix, with compressed streams [openai-responses: proxy]", async (context) => {
      const nginx = await startNginx(service);
      context.after(nginx.stop);
      const stream = await clientOf(nginx).responses.create({ model: "default", input: "Be slow", stream: true });
      let text = "";
      const sizes = [];
      for await (const event of stream) {
        text += event.type === "response.output_text.delta" ? event.delta : "";
        sizes.push(text.length);
      }
      assert.equal(text, SLOW);
      assert.ok(new Set(sizes).size > 10, "the text arrives in parts");
    });
  });
}
