/**
 * The title and the status of a session wherever the page shows them. Those of the open session are those of its
 * conversation, whose events can be newer than the list of sessions.
 */

import type { Session } from "@twostep/client";
import { listedStatus } from "./sessions";
import { conversation, isLoaded, outcome, session } from "./thread";

export function shownStatus(one: Session): string {
  if (one.id !== session.value?.id) return listedStatus(one);
  return isLoaded.value ? outcome.value : listedStatus(session.value);
}

export function shownTitle(one: Session): string | undefined {
  if (one.id !== session.value?.id) return one.title ?? undefined;
  return isLoaded.value ? conversation.value.title : (session.value.title ?? undefined);
}
