/** Follows the changes of the list of sessions while the tab is visible. */

import { batch, effect, signal } from "@preact/signals";
import { ProblemError, type SessionChange } from "@twostep/client";
import { client } from "../service/api";
import { isRefused, keyVersion, report } from "./access";
import { drop, isShown, list, mayList, put, refresh, search, showsArchived } from "./sessions";

// A browser opens few connections to a host over HTTP/1.1: a hidden tab does without this one.
const isVisible = signal(!document.hidden);
document.addEventListener("visibilitychange", () => {
  isVisible.value = !document.hidden;
});

effect(() => {
  void keyVersion.value;
  if (!isVisible.value) return;
  const abort = new AbortController();
  void follow(abort.signal);
  return () => abort.abort();
});

async function follow(signal: AbortSignal): Promise<void> {
  // The stream is open before the list is read: no change is lost between them.
  const onConnection = ({ state }: { state: string }) => {
    if (state === "open") void refresh();
  };
  try {
    for await (const change of client.sessionChanges({ signal, onConnection })) apply(change);
  } catch (error) {
    const isForbidden = error instanceof ProblemError && [401, 403].includes(error.status);
    if (!signal.aborted && !isForbidden) report(error);
  }
}

function apply({ session_id: id, session }: SessionChange): void {
  if (id == null || isRefused.peek() || !mayList.peek()) return;
  batch(() => {
    const isKnown = list.peek().some((one) => one.id === id);
    if (session == null || session.archived !== showsArchived.peek() || !isShown(session)) drop(id);
    // The service decides which sessions a search finds.
    else if (isKnown || search.peek().trim() === "") put(session);
  });
}
