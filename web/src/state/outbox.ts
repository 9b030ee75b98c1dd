/** Messages that this tab sends, until their events arrive. */

import { effect, signal } from "@preact/signals";
import { type CreateMessage, uniqueId } from "@twostep/client";
import { client } from "../service/api";
import { describe, report } from "./access";
import { openId } from "./route";
import { conversation } from "./thread";

export interface Outgoing {
  /** The id of the message: sending it again has no further effect. */
  id: string;
  sessionId: string;
  content: CreateMessage["content"];
  error: string | undefined;
  isAccepted: boolean;
}

export const outbox = signal<Outgoing[]>([]);

function change(id: string, changes: Partial<Outgoing>): void {
  outbox.value = outbox.value.map((one) => (one.id === id ? { ...one, ...changes } : one));
}

export function forget(id: string): void {
  outbox.value = outbox.value.filter((one) => one.id !== id);
}

/** Posts a message. It is shown at once, and stays with its error if it is not accepted. */
export async function post(sessionId: string, content: CreateMessage["content"]): Promise<void> {
  const id = uniqueId();
  outbox.value = [...outbox.value, { id, sessionId, content, error: undefined, isAccepted: false }];
  await repost(id);
}

export async function repost(id: string): Promise<void> {
  const message = outbox.value.find((one) => one.id === id);
  if (message === undefined) return;
  change(id, { error: undefined });
  try {
    await client.send(message.sessionId, { content: message.content, id });
    change(id, { isAccepted: true });
  } catch (error) {
    report(error);
    change(id, { error: describe(error).text });
  }
}

// The event of a message shows it from then on.
effect(() => {
  if (outbox.value.length === 0) return;
  const { items } = conversation.value;
  const isElsewhere = (one: Outgoing) => one.isAccepted && one.sessionId !== openId.value;
  const arrived = outbox.value.filter((one) => isElsewhere(one) || items.some((item) => item.id === one.id));
  for (const { id } of arrived) forget(id);
});
