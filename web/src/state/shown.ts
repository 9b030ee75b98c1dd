/**
 * The title and the status of a session wherever the page shows them. Those of the open session and of its
 * sub-agents are those of its conversation, whose events can be newer than the list of sessions.
 */

import type { Session } from "@twostep/client";
import { approvals } from "./approvals";
import { listedStatus, waitingParents } from "./sessions";
import { conversation, isLoaded, outcome, session, statusOf } from "./thread";

export function shownStatus(one: Session): string {
  const open = session.value;
  if (one.id === open?.id) {
    if (!isLoaded.value) return listedStatus(open);
    // A call of a sub-agent waits: the run of its parent is running.
    return outcome.value === "running" && approvals.value.length > 0 ? "requires_action" : outcome.value;
  }
  if (open === undefined || one.parent?.session_id !== open.id) {
    return waitingParents.value.has(one.id) ? "requires_action" : listedStatus(one);
  }
  const call = conversation.value.items.findLast((item) => item.kind === "tool" && item.subAgent?.sessionId === one.id);
  const known = call?.kind === "tool" ? call.subAgent?.conversation : undefined;
  return known === undefined || known.seq === 0 ? listedStatus(one) : statusOf(known);
}

export function shownTitle(one: Session): string | undefined {
  if (one.id !== session.value?.id) return one.title ?? undefined;
  return isLoaded.value ? conversation.value.title : (session.value.title ?? undefined);
}
