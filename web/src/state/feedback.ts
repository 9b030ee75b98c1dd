/** The feedback on the replies of the open session, from its events. */

import { signal } from "@preact/signals";
import type { StreamEvent } from "@twostep/client";
import { client } from "../service/api";
import { act } from "./access";
import { openId } from "./route";

export type Rating = "up" | "down";

export interface Feedback {
  rating: Rating;
  text: string | undefined;
}

/** By the id of the reply. */
export const feedback = signal<ReadonlyMap<string, Feedback>>(new Map());

/** Takes the feedback from events. */
export function rememberFeedback(events: readonly StreamEvent[]): void {
  const given = events.filter((event) => event.type === "user.feedback");
  if (given.length === 0) return;
  const changed = new Map(feedback.peek());
  for (const { message_id: id, rating, text } of given) {
    if (rating === undefined) changed.delete(id);
    else changed.set(id, { rating, text });
  }
  feedback.value = changed;
}

/** Stores feedback in place of an earlier one; without it, removes the earlier one. The event shows it. */
export async function giveFeedback(messageId: string, given: Feedback | undefined): Promise<boolean> {
  const path = `/sessions/${openId.peek()}/messages/${encodeURIComponent(messageId)}/feedback`;
  const request = given === undefined ? { method: "DELETE" as const } : { method: "PUT" as const, body: given };
  return (await act(() => client.request(path, request).then(() => true))) === true;
}
