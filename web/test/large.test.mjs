import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Browser, isFirefox } from "./browser.mjs";
import { Service } from "./service.mjs";

const messages = 5_000;
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

/** An export with this number of messages: questions and answers with code and lists. */
function exported() {
  const session = `ses_${"0".repeat(32)}`;
  const run = (seq) => `run_${String(seq).padStart(32, "0")}`;
  const created = "2026-11-01T10:00:00.000000Z";
  const lines = [
    {
      type: "session",
      version: 1,
      session_id: session,
      created_at: created,
      settings: { title: "Large", model: "simulator" },
    },
  ];
  for (let seq = 1; seq <= messages; seq += 2) {
    const answer = `Answer ${seq + 1} with **Markdown**:\n\n- one\n- two\n\n\`\`\`js\nconst answer = ${seq};\n\`\`\`\n\nAnd a paragraph of ordinary text that is long enough to need more than one line in a narrow window.`;
    const item = (role, number, text) => ({
      type: role,
      session_id: session,
      seq: number,
      run_id: run(seq),
      created_at: created,
      message: {
        id: `message-${number}`,
        role,
        content: [{ type: "text", text }],
        ...(role === "assistant" && { model: "simulator", stop_reason: "end_turn" }),
      },
    });
    lines.push(item("user", seq, `Question ${seq}`), item("assistant", seq + 1, answer));
  }
  lines.push({ type: "end", messages });
  return lines.map((line) => JSON.stringify(line)).join("\n");
}

// Only Chromium reports the size of the heap.
test(`a session of ${messages} messages scrolls smoothly within 200 MB`, { skip: isFirefox }, async () => {
  const { id } = await service.api("POST", "/sessions/import", exported(), "application/jsonl");
  const tab = await browser.tab(`?s=${id}`);
  const start = Date.now();
  await tab.locator("#log[aria-busy=false]").waitFor();
  await tab.getByText(`Answer ${messages} with`).waitFor();
  const loaded = Date.now() - start;
  const session = await tab.context().newCDPSession(tab);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  const work = async () =>
    (await session.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value * 1000;
  const before = await work();
  const frames = await tab.evaluate(scrolled);
  const each = ((await work()) - before) / frames.length;
  const { heap, nodes } = await tab.evaluate(async () => {
    gc();
    return { heap: performance.memory.usedJSHeapSize / 1e6, nodes: document.querySelectorAll("*").length };
  });
  const sorted = frames.toSorted((a, b) => a - b);
  const [median, late] = [0.5, 0.95].map((part) => sorted[Math.floor(sorted.length * part)].toFixed(1));
  console.log(
    `loaded in ${loaded} ms; frames: median ${median} ms, 95% ${late} ms, ${each.toFixed(1)} ms of work each; ` +
      `heap ${heap.toFixed(0)} MB; ${nodes} elements`,
  );
  assert.ok(heap < 200, `heap of ${heap} MB`);
  assert.ok(nodes < 20_000, `${nodes} elements`);
  // The time between frames depends on what else the machine does; the work of the page does not.
  assert.ok(each <= 1000 / 60, `a frame takes ${each} ms of work`);
  await tab.locator("#log").evaluate((element) => (element.scrollTop = 0));
  await tab.getByText("Question 1", { exact: true }).waitFor();
  await browser.close(tab);
});

/** Scrolls up for three seconds, and returns the times between the frames. */
async function scrolled() {
  const element = document.querySelector("#log");
  const frames = [];
  let last = performance.now();
  for (const end = last + 3000; last < end;) {
    await new Promise((resolve) => requestAnimationFrame(resolve));
    const now = performance.now();
    frames.push(now - last);
    last = now;
    element.scrollTop -= 60;
  }
  return frames;
}
