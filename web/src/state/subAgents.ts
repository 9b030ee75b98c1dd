/** Sessions whose sub-agents wait for a decision. The list shows such a session as running. */

import { computed, effect, signal } from "@preact/signals";
import { client } from "../service/api";
import { list, listedStatus, mayList } from "./sessions";

/** The ids of the sessions in the list whose sub-agents wait for the user. */
export const waitingParents = signal<ReadonlySet<string>>(new Set());

/** The number of running sessions whose sub-agents are read. */
const maxParents = 10;
/** They are read when the running sessions have been the same for this many milliseconds, and then regularly. */
const patience = 1000;
const interval = 5000;

const running = computed(() =>
  list.value
    .filter((one) => listedStatus(one) === "running")
    .slice(0, maxParents)
    .map(({ id }) => id)
    .join(" "),
);

async function read(ids: string[]): Promise<void> {
  const found = await Promise.all(
    ids.map(async (parent) => {
      const page = await client.sessions({ parent, status: "requires_action", limit: 1 });
      return page.data.length > 0 ? [parent] : [];
    }),
  );
  if (running.peek() === ids.join(" ")) waitingParents.value = new Set(found.flat());
}

effect(() => {
  const ids = running.value.split(" ").filter(Boolean);
  const known = waitingParents.peek();
  if (known.size > 0) waitingParents.value = new Set([...known].filter((id) => ids.includes(id)));
  if (ids.length === 0 || !mayList.value) return;
  // Only an addition to the list: without it the page is complete.
  const look = () => {
    if (!document.hidden) void read(ids).catch(() => undefined);
  };
  const first = setTimeout(look, patience);
  const timer = setInterval(look, interval);
  return () => {
    clearTimeout(first);
    clearInterval(timer);
  };
});
