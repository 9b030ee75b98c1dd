/** Finds the sessions in the list whose sub-agents wait for a decision. The service lists them as running. */

import { computed, effect } from "@preact/signals";
import { list, listedStatus, maxParents, mayList, refresh, statusFilter, waitingAmong, waitingParents } from "./sessions";

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
  const found = await waitingAmong(ids);
  if (running.peek() === ids.join(" ")) waitingParents.value = new Set(found);
}

effect(() => {
  const ids = running.value.split(" ").filter(Boolean);
  // A list of the sessions that wait has only those running ones whose sub-agents wait.
  const isFiltered = statusFilter.value === "requires_action";
  const known = waitingParents.peek();
  if (known.size > 0 && !isFiltered) waitingParents.value = new Set([...known].filter((id) => ids.includes(id)));
  if ((ids.length === 0 && !isFiltered) || !mayList.value) return;
  // Only an addition to the list: without it the page is complete.
  const look = () => {
    if (document.hidden) return;
    if (isFiltered) void refresh();
    else void read(ids).catch(() => undefined);
  };
  const first = setTimeout(look, patience);
  const timer = setInterval(look, interval);
  return () => {
    clearTimeout(first);
    clearInterval(timer);
  };
});
