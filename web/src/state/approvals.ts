/** Calls that wait for a decision in the open session and in its sub-agents. */

import { computed, effect, signal } from "@preact/signals";
import type { Approval, Conversation } from "@twostep/client";
import { client } from "../service/api";
import { t } from "../text/text";
import { report } from "./access";
import { openId } from "./route";
import { list, listedStatus, waitingParents } from "./sessions";
import { conversation } from "./thread";

export interface PendingApproval extends Approval {
  sessionId: string;
  isSubAgent: boolean;
}

export const approvals = signal<PendingApproval[]>([]);
export const notifies = signal(false);

/** The sessions whose calls wait, and the ids of the calls, in one text that changes with them. */
const waiting = computed(() => {
  const id = openId.value;
  if (id === undefined) return "";
  const sessions = waitingSessions(id, conversation.value);
  return sessions.map(({ sessionId, calls }) => `${sessionId} ${calls.join(" ")}`).join("\n");
});

interface WaitingSession {
  sessionId: string;
  calls: string[];
}

function waitingSessions(sessionId: string, conversation: Conversation): WaitingSession[] {
  const found: WaitingSession[] = [];
  const calls: string[] = [];
  for (const item of conversation.items) {
    if (item.kind !== "tool") continue;
    if (item.state === "awaiting_approval") calls.push(item.id);
    const agent = item.subAgent;
    if (agent !== undefined && item.state === "running")
      found.push(...waitingSessions(agent.sessionId, agent.conversation));
  }
  if (calls.length > 0) found.unshift({ sessionId, calls });
  return found;
}

async function read(text: string): Promise<void> {
  const own = openId.peek();
  const sessions = text.split("\n").map((line) => line.split(" ")[0] ?? "");
  const pages = sessions.map(async (sessionId) => {
    const page = await client.approvals(sessionId);
    return page.map((call) => ({ ...call, sessionId, isSubAgent: sessionId !== own }));
  });
  const found = (await Promise.all(pages)).flat();
  if (waiting.peek() !== text) return;
  const known = new Set(approvals.peek().map((call) => call.tool_use_id));
  approvals.value = found;
  const added = found.filter((call) => !known.has(call.tool_use_id));
  if (added.length > 0 && notifies.peek() && document.hidden) {
    notify(added.map(({ name }) => name).join(", "), own ?? "");
  }
}

function notify(body: string, tag: string): void {
  try {
    new Notification(t("approvalNeeded"), { body, tag });
  } catch {
    // Some browsers of phones have the permission and no notifications of pages.
  }
}

effect(() => {
  const text = waiting.value;
  if (text === "") approvals.value = [];
  else void read(text).catch(report);
});

/** Removes a call that was decided here. The events remove it as well. */
export function settled(toolUseId: string): void {
  approvals.value = approvals.value.filter((call) => call.tool_use_id !== toolUseId);
}

/** The number of decisions that wait: calls of the open session, and other sessions. */
export const waitingCount = computed(() => {
  const others = list.value.filter(
    (one) => one.id !== openId.value && (listedStatus(one) === "requires_action" || waitingParents.value.has(one.id)),
  );
  return approvals.value.length + others.length;
});
