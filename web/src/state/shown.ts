/**
 * The title and the status of a session wherever the page shows them. Those of the open session and of its
 * sub-agents are those of its conversation, whose events can be newer than the list of sessions.
 */

import type { Session } from "@twostep/client";
import { listedStatus } from "./sessions";
import { conversation, isLoaded, outcome, session, statusOf } from "./thread";

export function shownStatus(one: Session): string {
  const open = session.value;
  if (one.id === open?.id) return isLoaded.value ? outcome.value : listedStatus(open);
  if (open === undefined || one.parent?.session_id !== open.id) return listedStatus(one);
  const call = conversation.value.items.findLast((item) => item.kind === "tool" && item.subAgent?.sessionId === one.id);
  const known = call?.kind === "tool" ? call.subAgent?.conversation : undefined;
  return known === undefined || known.seq === 0 ? listedStatus(one) : statusOf(known);
}

export function shownTitle(one: Session): string | undefined {
  if (one.id !== session.value?.id) return one.title ?? undefined;
  return isLoaded.value ? conversation.value.title : (session.value.title ?? undefined);
}
