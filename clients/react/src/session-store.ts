/** The state of one session for user interfaces: one stream, however many components show it. */

import {
  type Approval, type Connection, type Conversation, type CreateMessage, empty, ProblemError, reduce, type Run, type StreamEvent,
  type Twostep, uniqueId,
} from "@twostep/client";
import { groupMessages, type Message, type MessageContent, type PendingCall, pendingCalls, type UserMessage } from "./messages.js";

/** Functions of the client by the names of its tools. The result, or the error, is the result of the call. */
export type ClientTools = Record<string, (input: Record<string, unknown>, call: PendingCall) => unknown>;

export interface Snapshot {
  conversation: Conversation;
  messages: Message[];
  pending: PendingCall[];
  /** The texts to show for calls that wait for a decision, by the ids of the calls. */
  approvals: ReadonlyMap<string, Approval>;
  /** `closed`: the session is deleted, or `error` ended the stream. */
  connection: Connection["state"] | "closed";
  /** True until the past events have been read. */
  isLoading: boolean;
  /** The refusal that ended the stream, or the last failure of a client tool. */
  error: unknown;
}

export const initial: Snapshot = {
  conversation: empty, messages: [], pending: [], approvals: new Map(), connection: "connecting", isLoading: true,
  error: undefined,
};

/** Answers that another tab, a deadline or a cancellation was faster than. */
const TOO_LATE = [404, 409, 410];

export class SessionStore {
  snapshot = initial;
  tools: ClientTools = {};
  private readonly listeners = new Set<() => void>();
  private readonly answered = new Set<string>();
  private sending: UserMessage[] = [];
  private closing: ReturnType<typeof setTimeout> | undefined;
  private stream: AbortController | undefined;
  private isNotifying = false;

  constructor(readonly client: Twostep, readonly id: string) {}

  /** Opens the stream for the first listener, and closes it after the last one. */
  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    clearTimeout(this.closing);
    if (this.stream === undefined) void this.follow();
    return () => {
      this.listeners.delete(listener);
      // A component that is mounted again at once keeps the stream.
      if (this.listeners.size === 0) this.closing = setTimeout(() => this.close(), 1000);
    };
  };

  readonly getSnapshot = (): Snapshot => this.snapshot;

  /** Opens the stream again after a refusal, for example when the user has signed in again. */
  readonly reconnect = (): void => {
    this.close();
    if (this.listeners.size > 0) void this.follow();
  };

  /** Sends a message. It is shown at once. */
  readonly send = (content: MessageContent, settings: Omit<CreateMessage, "content" | "id"> = {}): Promise<Run> => {
    const blocks = typeof content === "string" ? [{ type: "text" as const, text: content }] : content;
    const message: UserMessage = { role: "user", id: `msg_${uniqueId()}`, content: blocks, state: "sending" };
    this.sending = [...this.sending, message];
    return this.post(message, settings);
  };

  /** Sends a message again that has failed. If it was accepted after all, this has no further effect. */
  readonly resend = (messageId: string): Promise<Run> => {
    const message = this.sending.find(({ id }) => id === messageId);
    if (message === undefined) return Promise.reject(new Error(`no message ${messageId} has failed`));
    this.setState(message, "sending");
    return this.post(message, {});
  };

  private async post({ id, content }: UserMessage, settings: Partial<CreateMessage>): Promise<Run> {
    this.update({});
    try {
      return await this.client.send(this.id, { ...settings, id, content });
    } catch (error) {
      const message = this.sending.find((other) => other.id === id);
      if (message !== undefined) this.setState(message, "failed");
      throw error;
    }
  }

  private setState(message: UserMessage, state: UserMessage["state"]): void {
    this.sending = this.sending.map((other) => (other.id === message.id ? { ...other, state } : other));
    this.update({});
  }

  private close(): void {
    this.stream?.abort();
    this.stream = undefined;
  }

  private async follow(): Promise<void> {
    const stream = new AbortController();
    this.stream = stream;
    const { signal } = stream;
    try {
      const { last_seq } = await this.client.session(this.id);
      if (this.snapshot.conversation.seq === 0) this.update({ conversation: await this.client.history(this.id) });
      const isLoading = () => this.snapshot.conversation.seq < last_seq;
      this.update({ isLoading: isLoading(), error: undefined });
      if (!isLoading()) this.react();
      const onConnection = ({ state }: Connection) => {
        if (!signal.aborted) this.update({ connection: state });
      };
      const { seq: after } = this.snapshot.conversation;
      for await (const event of this.client.events(this.id, { after, signal, onConnection })) {
        if (signal.aborted) return;
        this.fold(event, isLoading);
      }
      if (!signal.aborted) this.update({ connection: "closed" });
    } catch (error) {
      if (signal.aborted) return;
      const isFinal = error instanceof ProblemError && !error.isTemporary;
      this.update({ connection: isFinal ? "closed" : "waiting", isLoading: false, error });
      if (!isFinal) setTimeout(() => !signal.aborted && void this.follow(), 5000);
    }
  }

  private fold(event: StreamEvent, isLoading: () => boolean): void {
    const conversation = reduce(this.snapshot.conversation, event);
    if (conversation === this.snapshot.conversation) return;
    if (event.type === "user.message") this.sending = this.sending.filter(({ id }) => id !== event.id);
    this.snapshot = { ...this.snapshot, conversation };
    // The past is shown when it is complete.
    if (isLoading()) return;
    this.update({ isLoading: false });
    this.react();
  }

  /** Runs the tools of the client, and reads the texts of new approvals. */
  private react(): void {
    const { pending, approvals } = this.snapshot;
    for (const call of pending) {
      if (this.answered.has(call.id)) continue;
      const run = this.tools[call.name];
      if (call.awaits === "client" && run !== undefined) {
        this.answered.add(call.id);
        void this.runTool(call, run);
      } else if (call.awaits === "approval" && !approvals.has(call.id)) {
        this.answered.add(call.id);
        void this.readApprovals(call.sessionId);
      }
    }
  }

  private async runTool(call: PendingCall, run: ClientTools[string]): Promise<void> {
    const attempt = async () => run(call.input, call);
    const result = await attempt().then(
      (output: unknown) => ({ output, isError: false }),
      (error: unknown) => ({ output: error instanceof Error ? error.message : String(error), isError: true }),
    );
    await this.answer(call, result.output, result.isError).catch((error: unknown) => this.update({ error }));
  }

  private async readApprovals(sessionId: string): Promise<void> {
    const read = await this.client.approvals(sessionId).catch(() => []);
    const approvals = new Map(this.snapshot.approvals);
    for (const approval of read) approvals.set(approval.tool_use_id, approval);
    this.update({ approvals });
  }

  /** Submits the result of a call that the client runs. */
  async answer(call: PendingCall, output: unknown, isError = false): Promise<void> {
    this.answered.add(call.id);
    const content = typeof output === "string" ? output : (JSON.stringify(output) ?? "null");
    const result = { tool_use_id: call.id, content, is_error: isError };
    await this.client.answer(call.sessionId, [result]).catch(ignoreTooLate);
  }

  /** Changes the snapshot, and renders soon: several events that arrive together are rendered once. */
  private update(change: Partial<Snapshot>): void {
    const next = { ...this.snapshot, ...change };
    next.messages = groupMessages(next.conversation, this.sending, this.snapshot.messages);
    next.pending = pendingCalls(next.conversation, this.id);
    this.snapshot = next;
    if (this.isNotifying) return;
    this.isNotifying = true;
    setTimeout(() => {
      this.isNotifying = false;
      for (const listener of this.listeners) listener();
    });
  }
}

/** An answer that came too late has no effect: the stream shows the one that counts. */
export function ignoreTooLate(error: unknown): void {
  if (!(error instanceof ProblemError && TOO_LATE.includes(error.status))) throw error;
}

const stores = new WeakMap<Twostep, Map<string, SessionStore>>();

/** The store of a session: the same one for all components with the same client. */
export function storeOf(client: Twostep, id: string): SessionStore {
  const ofClient = stores.get(client) ?? new Map<string, SessionStore>();
  stores.set(client, ofClient);
  const store = ofClient.get(id) ?? new SessionStore(client, id);
  ofClient.set(id, store);
  return store;
}
