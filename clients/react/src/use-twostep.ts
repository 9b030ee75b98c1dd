/** One conversation. */

import type { CreateMessage, DecideCall, Run, UploadedFile } from "@twostep/client";
import { useCallback, useEffect, useMemo, useSyncExternalStore } from "react";
import { useClient } from "./context.js";
import type { MessageContent, PendingCall } from "./messages.js";
import { type ClientTools, ignoreTooLate, initial, type Snapshot, storeOf } from "./session-store.js";

export interface TwostepOptions {
  /** Tools of the session that this page runs. Calls of other client tools stay in `pending` until `answer`. */
  tools?: ClientTools;
  /** Creates the fork of `edit` and `regenerate`: for browser tokens, which cannot, through your back end. */
  fork?: (id: string, options: { before: string }) => Promise<{ id: string }>;
}

export interface UseTwostep extends Omit<Snapshot, "conversation"> {
  conversation: Snapshot["conversation"];
  status: Snapshot["conversation"]["status"];
  /** Sends a message. */
  send(content: MessageContent, settings?: Omit<CreateMessage, "content" | "id">): Promise<Run>;
  /** Sends a message again whose state is `failed`. */
  resend(messageId: string): Promise<Run>;
  /** Uploads a file for a block with the source `{ type: "file", file_id }` of a message. */
  upload(file: Blob & { name?: string }): Promise<UploadedFile>;
  /** Asks again for the answer of a run that failed or was stopped. It must be the newest one. */
  retry(runId: string): Promise<Run>;
  /** Stops the active run and the queued ones. */
  stop(): Promise<void>;
  /** Decides on a call that waits for an approval. A decision that came too late has no effect. */
  decide(call: PendingCall, decision: DecideCall): Promise<void>;
  /** Submits the result of a call that this client runs. */
  answer(call: PendingCall, output: unknown, isError?: boolean): Promise<void>;
  /** Sends other content in place of a message, in a fork that ends before the message. Returns the fork. */
  edit(messageId: string, content: MessageContent): Promise<{ id: string }>;
  /** Asks for another answer to a message, in a fork. Returns the fork. */
  regenerate(messageId: string): Promise<{ id: string }>;
  /** Opens the stream again after an `error`. */
  reconnect(): void;
}

const closed = { ...initial, isLoading: false, connection: "closed" as const };

/** Follows a session, and acts in it. Without an id the conversation is empty. */
export function useTwostep(id: string | undefined, { tools, fork }: TwostepOptions = {}): UseTwostep {
  const client = useClient();
  const store = useMemo(() => (id === undefined ? undefined : storeOf(client, id)), [client, id]);
  useEffect(() => {
    if (store !== undefined && tools !== undefined) store.tools = tools;
  }, [store, tools]);
  const subscribe = useCallback((listener: () => void) => store?.subscribe(listener) ?? (() => undefined), [store]);
  const getSnapshot = useCallback(() => store?.getSnapshot() ?? closed, [store]);
  const snapshot = useSyncExternalStore(subscribe, getSnapshot, () => initial);
  const actions = useMemo(() => {
    const opened = () => {
      if (store === undefined) throw new Error("useTwostep has no session yet");
      return store;
    };
    const edit = async (messageId: string, content: MessageContent) => {
      const { id, snapshot } = opened();
      const created = await (fork ?? client.fork)(id, { before: messageId });
      // The answer that the fork replaces is not needed.
      if (snapshot.conversation.status !== "idle") await client.stop(id);
      await client.send(created.id, { content });
      return created;
    };
    return {
      send: async (content: MessageContent, settings?: Omit<CreateMessage, "content" | "id">) => opened().send(content, settings),
      resend: async (messageId: string) => opened().resend(messageId),
      upload: async (file: Blob & { name?: string }) => client.upload(opened().id, file),
      retry: async (runId: string) => client.retry(opened().id, runId),
      stop: async () => client.stop(opened().id),
      decide: async (call: PendingCall, decision: DecideCall) => {
        await client.decide(call.sessionId, call.id, decision).catch(ignoreTooLate);
      },
      answer: async (call: PendingCall, output: unknown, isError?: boolean) => opened().answer(call, output, isError),
      edit,
      regenerate: async (messageId: string) => edit(messageId, await contentOf(messageId)),
      reconnect: () => store?.reconnect(),
    };

    /** The content of a message with all its images. */
    async function contentOf(messageId: string): Promise<MessageContent> {
      for (let before: string | undefined = "2147483647"; before !== undefined; ) {
        const page = await client.messages(opened().id, { before, limit: 200 });
        const found = page.data.find(({ message }) => message.id === messageId);
        if (found !== undefined) return found.message.content as MessageContent;
        before = page.has_more ? (page.next_cursor ?? undefined) : undefined;
      }
      throw new Error(`the session has no message ${messageId}`);
    }
  }, [client, store, fork]);
  return { ...snapshot, status: snapshot.conversation.status, ...actions };
}
