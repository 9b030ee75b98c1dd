/** A runtime of assistant-ui for one conversation. */

import {
  type AppendMessage, type AssistantRuntime, type ExternalStoreAdapter, type ThreadMessageLike, useExternalStoreRuntime,
} from "@assistant-ui/react";
import type { Session, ToolItem } from "@twostep/client";
import { useCallback, useMemo } from "react";
import type { Message, MessageContent, Part } from "./messages.js";
import type { UseThreads } from "./use-threads.js";
import { type TwostepOptions, type UseTwostep, useTwostep } from "./use-twostep.js";

export interface RuntimeOptions extends TwostepOptions {
  /** Called with the session that continues after an edited message or a regenerated answer: show it instead. */
  onFork?: (session: { id: string }) => void;
  /** The list of `useThreads`, and archived sessions, for the thread list. */
  threads?: UseThreads;
  archivedThreads?: UseThreads;
  /** Called when the user selects a thread, and with a new session for a new thread. */
  onSwitch?: (id: string) => void;
  /** The settings of new threads. */
  settings?: Parameters<UseThreads["create"]>[0];
  /** Other adapters of assistant-ui, for example for attachments. */
  adapters?: NonNullable<ExternalStoreAdapter<Message>["adapters"]>;
}

type ContentParts = Exclude<ThreadMessageLike["content"], string>;

/** The runtime for `AssistantRuntimeProvider`. */
export function useTwostepRuntime(id: string | undefined, options: RuntimeOptions = {}): AssistantRuntime {
  const conversation = useTwostep(id, options);
  return useExternalStoreRuntime(useAdapter(id, conversation, options));
}

function useAdapter(id: string | undefined, now: UseTwostep, options: RuntimeOptions): ExternalStoreAdapter<Message> {
  const { pending, approvals, status, messages } = now;
  const convertMessage = useCallback((message: Message) => convert(message, approvals), [approvals]);
  const threadList = useThreadList(id, options);
  const call = (callId: string) => {
    const found = pending.find((other) => other.id === callId);
    if (found === undefined) throw new Error(`the call ${callId} does not wait for an answer`);
    return found;
  };
  const forked = (session: { id: string }) => options.onFork?.(session);
  const adapter: ExternalStoreAdapter<Message> = {
    messages,
    convertMessage,
    isLoading: now.isLoading,
    isDisabled: id === undefined || now.conversation.isDeleted,
    isRunning: status === "queued" || status === "running" || status === "retrying",
    onNew: async (message) => void (await now.send(contentOf(message))),
    onCancel: () => now.stop(),
    onAddToolResult: ({ toolCallId, result, isError }) => now.answer(call(toolCallId), result, isError),
    onRespondToToolApproval: ({ approvalId, approved, reason }) =>
      now.decide(call(approvalId), approved ? { decision: "allow" } : { decision: "deny", ...(reason && { message: reason }) }),
    adapters: { ...options.adapters, ...(threadList && { threadList }) },
  };
  if (options.onFork === undefined) return adapter;
  return {
    ...adapter,
    onEdit: async (message) => forked(await now.edit(message.sourceId ?? "", contentOf(message))),
    onReload: async (parentId) => forked(await now.regenerate(parentId ?? "")),
  };
}

function useThreadList(id: string | undefined, { threads, archivedThreads, onSwitch, settings }: RuntimeOptions) {
  return useMemo(() => {
    if (threads === undefined) return undefined;
    const shown = ({ id, title }: Session) => ({ id, title: title ?? undefined });
    return {
      threadId: id,
      isLoading: threads.isLoading,
      threads: threads.threads.map((session) => ({ ...shown(session), status: "regular" as const })),
      archivedThreads: archivedThreads?.threads.map((session) => ({ ...shown(session), status: "archived" as const })),
      onSwitchToThread: (threadId: string) => onSwitch?.(threadId),
      onSwitchToNewThread: async () => onSwitch?.((await threads.create(settings)).id),
      onRename: threads.rename,
      onArchive: threads.archive,
      onUnarchive: threads.unarchive,
      onDelete: threads.remove,
    };
  }, [id, threads, archivedThreads, onSwitch, settings]);
}

/** The blocks of a message from the composer, with the images of its attachments. */
function contentOf({ content, attachments }: AppendMessage): MessageContent {
  const parts = [...content, ...(attachments ?? []).flatMap((attachment) => attachment.content ?? [])];
  return parts.flatMap((part): Exclude<MessageContent, string> => {
    if (part.type === "text") return [{ type: "text", text: part.text }];
    if (part.type !== "image") return [];
    const [, media_type, data] = /^data:([^;,]+);base64,(.*)$/s.exec(part.image) ?? [];
    const source = data === undefined ? { type: "url", url: part.image } : { type: "base64", media_type, data };
    return [{ type: "image", source } as Exclude<MessageContent, string>[number]];
  });
}

function convert(message: Message, approvals: UseTwostep["approvals"]): ThreadMessageLike {
  if (message.role === "user") {
    const custom = { state: message.state };
    return { role: "user", id: message.id, content: message.content.map(convertBlock), metadata: { custom } };
  }
  const { id, parts, runId, isActive } = message;
  const failure = parts.find((part) => part.kind === "error");
  const status = failure && { type: "incomplete" as const, reason: "error" as const, error: failure.message };
  return {
    role: "assistant",
    id,
    content: parts.flatMap((part) => convertPart(part, approvals)),
    ...(status && !isActive && { status }),
    metadata: { ...(runId !== undefined && { runId }) },
  };
}

function convertBlock(block: { type: string }): ContentParts[number] {
  const { type, text, source } = block as { type: string; text?: string; source?: { url?: string; media_type?: string; data?: string } };
  if (type === "image" && source !== undefined) {
    return { type: "image", image: source.url ?? `data:${source.media_type};base64,${source.data}` };
  }
  return { type: "text", text: text ?? `[${type}]` };
}

function convertPart(part: Part, approvals: UseTwostep["approvals"]): ContentParts {
  if (part.kind === "tool") return [convertTool(part, approvals)];
  return part.kind === "error" ? [] : [{ type: part.kind === "text" ? "text" : "reasoning", text: part.text }];
}

function convertTool(tool: ToolItem, approvals: UseTwostep["approvals"]): ContentParts[number] {
  const result = tool.result?.map((block) => block.text ?? `[${block.type}]`).join("\n");
  const approval = approvals.get(tool.id);
  return {
    type: "tool-call",
    toolCallId: tool.id,
    toolName: tool.name,
    args: (tool.input ?? {}) as NonNullable<Extract<ContentParts[number], { type: "tool-call" }>["args"]>,
    argsText: tool.inputText,
    ...(result !== undefined && { result, isError: tool.state === "failed" }),
    ...(tool.state === "awaiting_approval" && { approval: { id: tool.id } }),
    ...(tool.state === "denied" && { approval: { id: tool.id, approved: false } }),
    // The text to show for a decision: invisible characters are escaped in it.
    ...(approval !== undefined && { artifact: { display: approval.display, diff: approval.diff, reason: approval.reason } }),
  };
}
