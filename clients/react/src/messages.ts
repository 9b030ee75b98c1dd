/** Messages of a conversation: its items, grouped by author and run. */

import type { Conversation, CreateMessage, ErrorItem, TextItem, ToolItem, UserItem } from "@twostep/client";

export type MessageContent = CreateMessage["content"];

/** A part of an answer, in the order in which it is shown. */
export type Part = TextItem | ToolItem | ErrorItem;

export interface UserMessage {
  role: "user";
  /** The id of the message: `edit` and `resend` take it. */
  id: string;
  content: Exclude<MessageContent, string>;
  /** `sending`: the service has not confirmed it. `failed`: it may not have been accepted; `resend` is safe. */
  state: "sent" | "sending" | "failed";
}

export interface AssistantMessage {
  role: "assistant";
  id: string;
  runId: string | undefined;
  parts: Part[];
  /** True while the run of the message is executed, retried, or waits for the client. */
  isActive: boolean;
}

export type Message = UserMessage | AssistantMessage;

/** A call that waits for the client. */
export interface PendingCall {
  id: string;
  /** The session that the call belongs to: that of a sub-agent or the session itself. */
  sessionId: string;
  name: string;
  input: Record<string, unknown>;
  /** `approval`: a decision is needed. `client`: the client runs the tool. */
  awaits: "approval" | "client";
}

/**
 * The messages of a conversation, oldest first. The answer to a message directly follows it, also if the next
 * message was queued meanwhile. Messages of `before` that have not changed are kept as they are.
 */
export function groupMessages(conversation: Conversation, sending: UserMessage[], before: Message[]): Message[] {
  const groups: (UserItem | Part[])[] = [];
  const answers = new Map<string | undefined, Part[]>();
  for (const item of conversation.items) {
    if (item.kind === "user") {
      // The message that a retry repeats is shown already.
      if (item.retryOf === undefined) groups.push(item);
      if (item.runId !== undefined) {
        const answer = answers.get(item.runId) ?? [];
        answers.set(item.runId, answer);
        groups.push(answer);
      }
    } else if (answers.has(item.runId)) {
      answers.get(item.runId)?.push(item);
    } else {
      const answer = [item];
      answers.set(item.runId, answer);
      groups.push(answer);
    }
  }
  const known = new Map(before.map((message) => [message.id, message]));
  const messages = groups.flatMap((group): Message[] => {
    if (!Array.isArray(group)) return [userMessage(group, known.get(group.id))];
    return group[0] === undefined ? [] : [assistantMessage(group, conversation, known)];
  });
  return [...messages, ...sending];
}

function userMessage({ id, content }: UserItem, known: Message | undefined): UserMessage {
  if (known?.role === "user" && known.state === "sent") return known;
  // The message as it was sent has all images; the event only names them.
  const sent = known?.role === "user" ? known.content : (content as UserMessage["content"]);
  return { role: "user", id, content: sent, state: "sent" };
}

function assistantMessage(parts: Part[], conversation: Conversation, known: Map<string, Message>): AssistantMessage {
  const first = parts[0] as Part;
  const id = first.runId ?? first.id;
  const isActive = first.runId !== undefined && conversation.activeRunId === first.runId;
  const message = known.get(id);
  const isSame = message?.role === "assistant" && message.isActive === isActive &&
    message.parts.length === parts.length && message.parts.every((part, index) => part === parts[index]);
  return isSame ? message : { role: "assistant", id, runId: first.runId, parts, isActive };
}

/** The calls that wait for the client, also those of sub-agents. */
export function pendingCalls(conversation: Conversation, sessionId: string): PendingCall[] {
  return conversation.items.flatMap((item): PendingCall[] => {
    if (item.kind !== "tool") return [];
    if (item.subAgent !== undefined && item.result === undefined) {
      return pendingCalls(item.subAgent.conversation, item.subAgent.sessionId);
    }
    const isWaiting = item.state === "awaiting_approval" || item.state === "awaiting_client";
    if (!isWaiting || conversation.status !== "requires_action") return [];
    const awaits = item.state === "awaiting_approval" ? "approval" : "client";
    return [{ id: item.id, sessionId, name: item.name, input: item.input ?? {}, awaits }];
  });
}
