// A reporter of node:test: one line of JSON for each test that names cases. A skipped test covers nothing.

/** The door, if it is not that of the folder, and the cases at the end of a test's name. */
export const pattern = /\[(?:([\w-]+): )?([\w-]+(?:, [\w-]+)*)\]$/;

export default async function* report(events) {
  for await (const { type, data } of events) {
    if (type !== "test:pass" && type !== "test:fail") continue;
    const isSkipped = data.skip !== undefined || data.todo !== undefined;
    if (pattern.test(data.name) && !isSkipped) yield `${JSON.stringify({ name: data.name, ok: type === "test:pass" })}\n`;
  }
}
