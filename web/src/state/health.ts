/** The parts of the service that do not work, from its readiness checks. */

import { computed, effect, signal } from "@preact/signals";
import { base } from "../service/api";
import { openId } from "./route";
import { conversation } from "./thread";

interface Check {
  status: "ok" | "warning" | "failed";
  detail: string;
}

/** By their names. Empty if nothing is known, for example because a proxy does not forward the checks. */
export const checks = signal<Readonly<Record<string, Check>>>({});

export interface Trouble {
  name: string;
  detail: string;
  /** The name of the MCP server that is unavailable. */
  server: string | undefined;
}

const serverPrefix = "mcp:";

/** A folder that is read-only on purpose is a warning as well: other warnings than these two are no trouble. */
export const troubles = computed((): Trouble[] =>
  Object.entries(checks.value).flatMap(([name, { status, detail }]) => {
    const server = name.startsWith(serverPrefix) ? name.slice(serverPrefix.length) : undefined;
    const isTrouble = status === "failed" || (status === "warning" && (name === "model" || server !== undefined));
    return isTrouble ? [{ name, detail, server }] : [];
  }),
);

async function read(signal: AbortSignal): Promise<void> {
  let found: Record<string, Check> | undefined;
  try {
    // A service that is not ready replies 503 with the same checks.
    const response = await fetch(new URL("readyz", base), { signal });
    found = ((await response.json()) as { checks?: Record<string, Check> }).checks;
  } catch {
    // Nothing is known.
  }
  if (!signal.aborted) checks.value = found ?? {};
}

/** While a run is active or a part does not work, the checks are read again after this many milliseconds. */
const interval = 5000;

const situation = computed(() => `${openId.value} ${conversation.value.status}`);

/**
 * A short run can begin and end between two updates of the page, which then sees no change of its status:
 * a trouble that is shown must not wait for one.
 */
const isWatched = computed(() => conversation.value.status !== "idle" || troubles.value.length > 0);

effect(() => {
  void situation.value;
  const isRepeated = isWatched.value;
  // A late response must not replace a newer one.
  const reading = new AbortController();
  void read(reading.signal);
  if (!isRepeated) return () => reading.abort();
  const timer = setInterval(() => {
    if (!document.hidden) void read(reading.signal);
  }, interval);
  return () => {
    reading.abort();
    clearInterval(timer);
  };
});
