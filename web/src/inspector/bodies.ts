/** The difference of two requests to the model. */

import { createTwoFilesPatch } from "diff";

/** The longest time of a comparison, in milliseconds. */
const timeout = 2000;

/** The body as text, without the markers of the cache, which move with every request. */
function textOf(body: unknown): string {
  return JSON.stringify(body, (name, value: unknown) => (name === "cache_control" ? undefined : value), 2);
}

/** The changes as a patch; an empty text if there are none, undefined if the bodies are too different. */
export function changesBetween(before: unknown, after: unknown): string | undefined {
  const [one, other] = [textOf(before), textOf(after)];
  if (one === other) return "";
  const patch = createTwoFilesPatch("", "", one, other, "", "", { context: 3, timeout });
  return patch?.split("\n").filter((line) => !/^(Index:|=+$|--- |\+\+\+ |\\ No newline)/.test(line)).join("\n");
}
