/** The open session: its settings, its conversation from events, and the state of the connection. */

import { batch, computed, effect, signal } from "@preact/signals";
import {
  type Connection,
  type Conversation,
  ProblemError,
  type Session,
  type StreamEvent,
  empty,
  reduce,
} from "@twostep/client";
import { client } from "../service/api";
import { isRefused, keyVersion, report } from "./access";
import { feedback, rememberFeedback } from "./feedback";
import { perFrame } from "./frames";
import { openId } from "./route";
import { rememberServers, serverChanges } from "./toolServers";

/** What the events say about an item besides what the conversation has. */
export interface Origin {
  seq: number;
  at: string;
  messageId: string | undefined;
}

export const session = signal<Session | undefined>(undefined);
export const conversation = signal<Conversation>(empty);
export const connection = signal<Connection>({ state: "connecting", failures: 0 });
/** False until everything that the session has had is shown. */
export const isLoaded = signal(false);
/** The session does not exist, or this key may not read it. */
export const isMissing = signal(false);
export const origins = new Map<string, Origin>();

/**
 * The id of the message that an item is a part of. Items that a fork shares have no event; their ids begin
 * with that of the message.
 */
export function messageIdOf(itemId: string): string | undefined {
  const origin = origins.get(itemId);
  return origin === undefined ? /^(.+)\.\d+$/.exec(itemId)?.[1] : origin.messageId;
}

/** The status in one term, also for what the last run has come to. */
export const outcome = computed(() => statusOf(conversation.value));

/** The key of the text for the status of a conversation. */
export function statusOf({ status, stopReason }: Pick<Conversation, "status" | "stopReason">) {
  if (status !== "idle") return status;
  if (stopReason === undefined) return "idle";
  if (stopReason.type === "cancelled") return "cancelled";
  const failures = ["retries_exhausted", "error", "budget_exceeded", "refusal"];
  return failures.includes(stopReason.type) ? "failed" : "done";
}

/** Loads the settings of the open session again. */
export async function reload(): Promise<void> {
  const id = openId.value;
  if (id === undefined) return;
  const read = await client.session(id);
  if (openId.value === id) session.value = read;
}

effect(() => {
  const id = openId.value;
  batch(() => {
    session.value = undefined;
    conversation.value = empty;
    connection.value = { state: "connecting", failures: 0 };
    isLoaded.value = false;
    isMissing.value = false;
    origins.clear();
    feedback.value = new Map();
    serverChanges.value = [];
  });
  if (id === undefined) return;
  const abort = new AbortController();
  void follow(id, abort.signal);
  return () => abort.abort();
});

/** Follows a session until another one is opened, whatever happens to keys and connections. */
async function follow(id: string, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const version = keyVersion.peek();
    try {
      await load(id, signal);
      await stream(id, signal);
      return;
    } catch (error) {
      if (signal.aborted) return;
      report(error);
      if (!(error instanceof ProblemError) || error.status !== 401) {
        isMissing.value = error instanceof ProblemError && [403, 404].includes(error.status);
        return;
      }
      await keyChanged(version, signal);
    }
  }
}

async function load(id: string, signal: AbortSignal): Promise<void> {
  if (session.peek() !== undefined) return;
  const read = await client.session(id);
  const history = read.forked_from === undefined ? empty : await client.history(id);
  if (signal.aborted) return;
  batch(() => {
    session.value = read;
    conversation.value = { ...history, title: read.title ?? undefined };
    if (read.last_seq === 0) isLoaded.value = true;
  });
}

async function stream(id: string, signal: AbortSignal): Promise<void> {
  let waiting: StreamEvent[] = [];
  const last = session.peek()?.last_seq ?? 0;
  const show = perFrame(() => {
    if (signal.aborted) return;
    const events = waiting;
    waiting = [];
    batch(() => {
      rememberFeedback(events);
      rememberServers(events);
      conversation.value = events.reduce(reduce, conversation.peek());
      if (conversation.peek().seq >= last) isLoaded.value = true;
    });
  });
  const options = {
    after: conversation.peek().seq,
    signal,
    onConnection: (state: Connection) => {
      connection.value = state;
      if (state.state === "open") isRefused.value = false;
    },
  };
  for await (const event of client.events(id, options)) {
    if ("seq" in event) remember(event);
    if (event.type === "session.updated") void reload().catch(report);
    waiting.push(event);
    show();
  }
}

function remember(event: Extract<StreamEvent, { seq: number }>): void {
  const messageId = "message_id" in event ? event.message_id : undefined;
  origins.set(event.id, { seq: event.seq, at: event.created_at, messageId: messageId ?? undefined });
}

/** Waits until the user has entered another key. */
function keyChanged(version: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const stop = effect(() => {
      if (keyVersion.value !== version) resolve();
    });
    signal.addEventListener("abort", () => {
      stop();
      resolve();
    });
  });
}
