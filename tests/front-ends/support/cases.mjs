// The table of doors by cases in docs/front-ends.md.
//
//   node cases.mjs check FOLDER    checks that the table is that of the results in the folder
//   node cases.mjs write FOLDER    writes it
//
// A result is DOOR.jsonl, which cases-reporter.mjs writes while the tests of a door run. A test names the cases
// that it covers at the end of its name, in brackets: "a stopped answer [stop]". A prefix names another door than
// the folder: "[assistant-ui: stop]".

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { pattern } from "./cases-reporter.mjs";

export const cases = {
  text: "text",
  tools: "tools of the service",
  "parallel-tools": "parallel calls, one of which fails",
  allow: "approval: allowed",
  deny: "approval: denied",
  "edited-input": "approval: allowed with another input",
  "client-tool": "tool of the client",
  error: "error in the middle",
  stop: "stop",
  reload: "reload in mid-stream",
  "second-tab": "second tab",
  restart: "restart of the service in mid-stream",
  "network-cut": "network cut of 5 s",
  edit: "edited message",
  regenerate: "regenerated answer",
  images: "images",
  history: "history after a reload",
  proxy: "behind nginx, under a prefix, compressed",
};

/** The doors in the order of the columns: the folder of the tests, and the title. */
export const doors = {
  client: "`@twostep/client`",
  react: "`@twostep/react`",
  "assistant-ui": "its runtime for assistant-ui",
  "ai-sdk": "AI SDK",
  openai: "OpenAI Chat Completions",
  "openai-responses": "OpenAI Responses",
  "ag-ui": "AG-UI",
  "managed-agents": "Managed Agents",
};

const page = fileURLToPath(new URL("../../../docs/front-ends.md", import.meta.url));
const [begin, end] = ["<!-- cases: begin -->\n", "<!-- cases: end -->\n"];

/** The cases of each door that was tested: true if all tests that name the case have passed. */
function read(folder) {
  const results = {};
  for (const file of readdirSync(folder)) {
    for (const line of readFileSync(`${folder}/${file}`, "utf8").split("\n").filter(Boolean)) {
      const { name, ok } = JSON.parse(line);
      const [, door = file.replace(/\.jsonl$/, ""), ids] = pattern.exec(name);
      if (doors[door] === undefined) throw new Error(`the test "${name}" is of the unknown door ${door}`);
      const passed = (results[door] ??= new Map());
      for (const id of ids.split(", ")) {
        if (cases[id] === undefined) throw new Error(`the test "${name}" names the unknown case ${id}`);
        passed.set(id, ok && passed.get(id) !== false);
      }
    }
  }
  return results;
}

/** The cells of the table in the page: door → case → text. */
function shown(text) {
  const lines = text.trim().split("\n").map((line) => line.split("|").slice(1, -1).map((cell) => cell.trim()));
  const [titles, , ...rows] = lines;
  const cell = (door, id) => {
    const row = rows.find(([title]) => title === cases[id]);
    return row?.[titles?.indexOf(doors[door])];
  };
  return { has: (door) => titles?.includes(doors[door]) ?? false, cell };
}

/** The table: the results of the doors that were tested, and the present cells of the others. */
function table(folder, present) {
  const results = read(folder);
  const columns = Object.keys(doors).filter((door) => results[door] !== undefined || present.has(door));
  const cell = (door, id) => (results[door] === undefined ? present.cell(door, id) : results[door].get(id) === true ? "yes" : "–") ?? "–";
  const row = (cells) => `| ${cells.join(" | ")} |`;
  const head = [row(["case", ...columns.map((door) => doors[door])]), row(["---", ...columns.map(() => ":---:")])];
  const body = Object.entries(cases).map(([id, title]) => row([title, ...columns.map((door) => cell(door, id))]));
  return `${[...head, ...body].join("\n")}\n`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , command, folder] = process.argv;
  const text = readFileSync(page, "utf8");
  const [from, to] = [text.indexOf(begin) + begin.length, text.indexOf(end)];
  if (from < begin.length || to < from) throw new Error(`${page} has no lines ${begin} and ${end}`);
  const before = text.slice(from, to);
  const now = table(folder, shown(before));
  if (command === "write") writeFileSync(page, text.slice(0, from) + now + text.slice(to));
  else if (before !== now) {
    console.error(`docs/front-ends.md does not match the tests; scripts/front-ends --write writes this table:\n\n${now}`);
    process.exitCode = 1;
  }
}
