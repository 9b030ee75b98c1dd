/** A conversation, folded from its events. The same function serves replays and live streams. */

import type { ContentBlock, HistoryItem, StopReason, StreamEvent, Todo, Usage } from "./types.js";

/**
 * `streaming`: the model writes the input. `awaiting_approval`: the call waits for a decision.
 * `awaiting_client`: the client runs the tool.
 */
export type ToolState = "streaming" | "running" | "awaiting_approval" | "awaiting_client" | "denied" | "done" | "failed";

interface Entry { id: string; runId: string | undefined }

/**
 * A message of the user. `id` is the id of the message: a fork `before` it edits the message. `retryOf` is the run
 * whose message this one repeats.
 */
export interface UserItem extends Entry { kind: "user"; content: ContentBlock[]; retryOf: string | undefined }

/**
 * A text or the thinking of the agent. `isPreview` is true while the text streams; `isInterrupted` if the client
 * stopped the run during this reply.
 */
export interface TextItem extends Entry {
  kind: "text" | "thinking"; text: string; isPreview: boolean; isInterrupted: boolean;
}

export interface ToolItem extends Entry {
  kind: "tool";
  name: string;
  state: ToolState;
  isPreview: boolean;
  /** The JSON text of the input. Incomplete while it streams. */
  inputText: string;
  /** The input; undefined while it streams. */
  input: Record<string, unknown> | undefined;
  result: ContentBlock[] | undefined;
  durationMs: number | undefined;
  /** The session and the conversation of the sub-agent that the call started. */
  subAgent: { sessionId: string; conversation: Conversation } | undefined;
}

/** The error of a run. */
export interface ErrorItem extends Entry { kind: "error"; type: string; message: string }

/** An entry of a conversation, in the order in which it is shown. */
export type Item = UserItem | TextItem | ToolItem | ErrorItem;

export interface Conversation {
  /** The number of the last event: `after` for a stream that continues here. */
  seq: number;
  status: "idle" | "queued" | "running" | "retrying" | "requires_action";
  items: Item[];
  /** The run that is executed or waits for the client. */
  activeRunId: string | undefined;
  /** The runs whose messages are accepted but not yet started. */
  queuedRunIds: string[];
  /** The position in the queue of runs; undefined if no run is queued. */
  queue: { position: number; length: number } | undefined;
  stopReason: StopReason | undefined;
  todos: Todo[];
  /** The usage of the last run that settled. */
  usage: Usage | undefined;
  title: string | undefined;
  isDeleted: boolean;
}

/** A conversation without events. */
export const empty: Conversation = {
  seq: 0, status: "idle", items: [], activeRunId: undefined, queuedRunIds: [], queue: undefined,
  stopReason: undefined, todos: [], usage: undefined, title: undefined, isDeleted: false,
};

/**
 * The conversation after an event. It shares all unchanged items with the conversation before. An event
 * that the conversation already contains, or whose type is unknown, changes nothing.
 */
export function reduce(before: Conversation, event: StreamEvent): Conversation {
  if (!("seq" in event)) return reduceNotice(before, event);
  if (event.seq <= before.seq) return before;
  const now: Conversation = { ...before, seq: event.seq, queue: undefined };
  const runId = event.run_id ?? undefined;
  switch (event.type) {
    case "user.message": {
      const status = now.status === "idle" ? "queued" : now.status;
      const accepted = { ...now, status, queuedRunIds: now.queuedRunIds.concat(runId ?? []) };
      return put(accepted, { kind: "user", id: event.id, runId, content: event.content, retryOf: event.retry_of });
    }
    case "agent.message":
    case "agent.thinking": {
      const text = event.content.map((block) => ("text" in block ? (block.text ?? "") : "")).join("");
      const isInterrupted = "interrupted" in event && event.interrupted === true;
      return put(now, { ...newText(event.id, runId, event.type), text, isPreview: false, isInterrupted });
    }
    case "agent.tool_use":
    case "agent.custom_tool_use": {
      const state = event.type === "agent.tool_use" ? "running" : "awaiting_client";
      return put(now, withInput({ ...newTool(event.id, runId, event.name), state, isPreview: false }, event.input));
    }
    case "user.tool_confirmation":
      return editTool(now, event.tool_use_id, (tool) => {
        if (event.result === "deny") return { ...tool, state: "denied" };
        return withInput({ ...tool, state: "running" }, event.input ?? tool.input);
      });
    case "user.custom_tool_result":
      return editTool(now, event.custom_tool_use_id, (tool) => settled(tool, event.content, event.is_error));
    case "agent.tool_result":
      return editTool(now, event.tool_use_id, (tool) => settled(tool, event.content, event.is_error, event.duration_ms));
    case "session.thread_created":
    case "session.thread_event":
      return editTool(now, event.tool_use_id, (tool) => {
        const known = tool.subAgent?.conversation ?? empty;
        const conversation = event.type === "session.thread_event" ? reduce(known, event.event as StreamEvent) : known;
        return { ...tool, subAgent: { sessionId: event.session_thread_id, conversation } };
      });
    case "session.status_running":
      return { ...advance(now, runId), status: "running", activeRunId: runId };
    case "session.status_rescheduled":
      return { ...advance(now, runId), status: "retrying" };
    case "span.model_request_start":
      return now.status === "retrying" ? { ...now, status: "running" } : now;
    case "span.model_request_end":
      return advance(now, runId);
    case "session.status_idle":
      return idle(advance(now, runId), runId, event.stop_reason);
    case "session.error":
      return put(now, { kind: "error", id: event.id, runId, ...event.error });
    case "session.todos":
      return { ...now, todos: event.todos };
    case "session.usage":
      return { ...now, usage: event.usage };
    case "session.updated":
      return event.title === undefined ? now : { ...now, title: event.title ?? undefined };
    default:
      return now;
  }
}

/** Previews and notices, which have no number. */
function reduceNotice(now: Conversation, event: Exclude<StreamEvent, { seq: number }>): Conversation {
  switch (event.type) {
    case "event_start": {
      const { type, id, name = "" } = event.event;
      return put(now, type === "agent.tool_use" ? newTool(id, event.run_id, name) : newText(id, event.run_id, type));
    }
    case "event_delta":
      return edit(now, event.event_id, (item) => {
        if (!("isPreview" in item && item.isPreview)) return item;
        const { delta } = event;
        if (delta.type === "content_delta") return "text" in item ? { ...item, text: item.text + delta.content.text } : item;
        return item.kind === "tool" ? { ...item, inputText: item.inputText + delta.partial_json } : item;
      });
    case "queue_position":
      return { ...now, queue: { position: event.position, length: event.length } };
    case "session.deleted":
      return { ...now, isDeleted: true };
    default:
      return now;
  }
}

const newText = (id: string, runId: string | undefined, type: string): TextItem =>
  ({ kind: type === "agent.message" ? "text" : "thinking", id, runId, text: "", isPreview: true, isInterrupted: false });

const unknown = { input: undefined, result: undefined, durationMs: undefined, subAgent: undefined };
const newTool = (id: string, runId: string | undefined, name: string): ToolItem =>
  ({ kind: "tool", id, runId, name, state: "streaming", isPreview: true, inputText: "", ...unknown });

const withInput = (tool: ToolItem, input: object | undefined): ToolItem =>
  ({ ...tool, input: input as ToolItem["input"], inputText: JSON.stringify(input) });

const settled = (tool: ToolItem, result: ContentBlock[], isError: boolean, durationMs?: number): ToolItem =>
  ({ ...tool, state: tool.state === "denied" ? "denied" : isError ? "failed" : "done", result, durationMs });

/** The conversation after a run has settled or waits for the client. */
function idle(now: Conversation, runId: string | undefined, stopReason: StopReason): Conversation {
  // A queued run was cancelled while another one is active.
  if (now.activeRunId !== undefined && now.activeRunId !== runId) return now;
  if (stopReason.type !== "requires_action") {
    return { ...now, status: now.queuedRunIds.length > 0 ? "queued" : "idle", stopReason, activeRunId: undefined };
  }
  const ask = (tool: ToolItem): ToolItem => (tool.state === "running" ? { ...tool, state: "awaiting_approval" } : tool);
  const waiting: Conversation = { ...now, status: "requires_action", stopReason };
  return stopReason.event_ids.reduce((done, id) => editTool(done, id, ask), waiting);
}

/** Replaces the item with the same id, or appends the item. */
function put(now: Conversation, item: Item): Conversation {
  const index = now.items.findLastIndex((other) => other.id === item.id);
  return { ...now, items: index < 0 ? [...now.items, item] : now.items.with(index, item) };
}

function edit(now: Conversation, id: string, change: (item: Item) => Item): Conversation {
  const item = now.items.findLast((item) => item.id === id);
  const changed = item && change(item);
  return changed === undefined || changed === item ? now : put(now, changed);
}

const editTool = (now: Conversation, id: string, change: (tool: ToolItem) => ToolItem) =>
  edit(now, id, (item) => (item.kind === "tool" ? change(item) : item));

/** A run has begun, or ended, a try: it is not queued, and a reply whose previews no event has replaced is discarded. */
function advance(now: Conversation, runId: string | undefined): Conversation {
  const isKept = (item: Item) => !("isPreview" in item && item.isPreview && item.runId === runId);
  const items = now.items.every(isKept) ? now.items : now.items.filter(isKept);
  return { ...now, items, queuedRunIds: now.queuedRunIds.filter((id) => id !== runId) };
}

/** A block of a message, as the history has it. */
type Block = Partial<Record<"id" | "name" | "text" | "thinking" | "tool_use_id", string>> & {
  type: string; input?: object; content?: string | ContentBlock[]; is_error?: boolean;
};

/** The conversation that messages of the history show, for messages without events: those that a fork shares. */
export function fromMessages(messages: HistoryItem[]): Conversation {
  let now = empty;
  for (const { message, run_id: runId } of messages) {
    const blocks = message.content as Block[];
    for (const [index, { type, id = `${message.id}.${index}`, ...block }] of blocks.entries()) {
      if (type === "tool_result") {
        const content = typeof block.content === "string" ? [{ type: "text", text: block.content }] : block.content;
        now = editTool(now, block.tool_use_id ?? "", (tool) => settled(tool, content ?? [], block.is_error === true));
      } else if (type === "tool_use") {
        now = put(now, withInput({ ...newTool(id, runId, block.name ?? ""), isPreview: false }, block.input));
      } else if (message.role === "assistant") {
        const empty = newText(id, runId, type === "text" ? "agent.message" : "agent.thinking");
        now = put(now, { ...empty, text: block.text ?? block.thinking ?? "", isPreview: false });
      }
    }
    const content = message.role === "user" ? blocks.filter((block) => block.type !== "tool_result") : [];
    if (content.length > 0) now = put(now, { kind: "user", id: message.id, runId, content, retryOf: undefined });
  }
  return now;
}
