/** A conversation, folded from its events. The same function serves replays and live streams. */

import type { ContentBlock, StopReason, StreamEvent, Todo, Usage } from "./types.js";

export type ToolState =
  | "streaming" // the model writes the input
  | "running"
  | "awaiting_approval"
  | "awaiting_client" // the client runs the tool
  | "denied"
  | "done"
  | "failed";

/** An entry of a conversation, in the order in which it is shown. */
export type Item =
  | { kind: "user"; id: string; runId: string | undefined; content: ContentBlock[] }
  | {
      kind: "text" | "thinking";
      id: string;
      runId: string | undefined;
      text: string;
      /** True while the text streams. The event replaces it. */
      isPreview: boolean;
      /** True if the client stopped the run during this reply. */
      isInterrupted: boolean;
    }
  | {
      kind: "tool";
      id: string;
      runId: string | undefined;
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
  | { kind: "error"; id: string; runId: string | undefined; type: string; message: string };

type Tool = Extract<Item, { kind: "tool" }>;

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
      const queuedRunIds = runId === undefined ? now.queuedRunIds : [...now.queuedRunIds, runId];
      const status = now.status === "idle" ? "queued" : now.status;
      return put({ ...now, status, queuedRunIds }, { kind: "user", id: event.id, runId, content: event.content });
    }
    case "agent.message":
    case "agent.thinking": {
      const kind = event.type === "agent.message" ? "text" : "thinking";
      const isInterrupted = event.type === "agent.message" && event.interrupted === true;
      const text = event.content.map((block) => ("text" in block ? (block.text ?? "") : "")).join("");
      return put(now, { kind, id: event.id, runId, text, isPreview: false, isInterrupted });
    }
    case "agent.tool_use":
    case "agent.custom_tool_use": {
      const input = event.input as Record<string, unknown>;
      const state = event.type === "agent.tool_use" ? "running" : "awaiting_client";
      return put(now, { ...newTool(event.id, runId, event.name), state, isPreview: false, input, inputText: JSON.stringify(input) });
    }
    case "user.tool_confirmation":
      return editTool(now, event.tool_use_id, (tool) => {
        if (event.result === "deny") return { ...tool, state: "denied" };
        const input = (event.input as Record<string, unknown> | null | undefined) ?? tool.input;
        return { ...tool, state: "running", input, inputText: JSON.stringify(input) };
      });
    case "user.custom_tool_result":
      return editTool(now, event.custom_tool_use_id, (tool) => settled(tool, event.content, event.is_error));
    case "agent.tool_result":
      return editTool(now, event.tool_use_id, (tool) => ({
        ...settled(tool, event.content, event.is_error), durationMs: event.duration_ms,
      }));
    case "session.thread_created":
      return editTool(now, event.tool_use_id, (tool) => ({
        ...tool, subAgent: { sessionId: event.session_thread_id, conversation: empty },
      }));
    case "session.thread_event":
      return editTool(now, event.tool_use_id, (tool) => {
        const conversation = reduce(tool.subAgent?.conversation ?? empty, event.event as StreamEvent);
        return { ...tool, subAgent: { sessionId: event.session_thread_id, conversation } };
      });
    case "session.status_running":
      return { ...notQueued(withoutPreviews(now, runId), runId), status: "running", activeRunId: runId };
    case "session.status_rescheduled":
      return { ...withoutPreviews(now, runId), status: "retrying" };
    case "span.model_request_start":
      return now.status === "retrying" ? { ...now, status: "running" } : now;
    case "span.model_request_end":
      return withoutPreviews(now, runId);
    case "session.status_idle":
      return idle(notQueued(withoutPreviews(now, runId), runId), runId, event.stop_reason);
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
      const { type, id } = event.event;
      const runId = event.run_id;
      if (type === "agent.tool_use") return put(now, newTool(id, runId, event.event.name ?? ""));
      const kind = type === "agent.message" ? "text" : "thinking";
      return put(now, { kind, id, runId, text: "", isPreview: true, isInterrupted: false });
    }
    case "event_delta": {
      const { delta } = event;
      return edit(now, event.event_id, (item) => {
        if (item.kind === "tool" && item.isPreview && delta.type === "input_json_delta") {
          return { ...item, inputText: item.inputText + delta.partial_json };
        }
        const isText = (item.kind === "text" || item.kind === "thinking") && item.isPreview;
        return isText && delta.type === "content_delta" ? { ...item, text: item.text + delta.content.text } : item;
      });
    }
    case "queue_position":
      return { ...now, queue: { position: event.position, length: event.length } };
    case "session.deleted":
      return { ...now, isDeleted: true };
    default:
      return now;
  }
}

function newTool(id: string, runId: string | undefined, name: string): Tool {
  return {
    kind: "tool", id, runId, name, state: "streaming", isPreview: true, inputText: "", input: undefined,
    result: undefined, durationMs: undefined, subAgent: undefined,
  };
}

function settled(tool: Tool, result: ContentBlock[], isError: boolean): Tool {
  const state = tool.state === "denied" ? "denied" : isError ? "failed" : "done";
  return { ...tool, state, result };
}

/** The conversation after a run has settled or waits for the client. */
function idle(now: Conversation, runId: string | undefined, stopReason: StopReason): Conversation {
  // A queued run was cancelled while another one is active.
  if (now.activeRunId !== undefined && now.activeRunId !== runId) return now;
  if (stopReason.type === "requires_action") {
    const waiting: Conversation = { ...now, status: "requires_action", stopReason };
    return stopReason.event_ids.reduce<Conversation>((done, id) => {
      return editTool(done, id, (tool) => (tool.state === "running" ? { ...tool, state: "awaiting_approval" } : tool));
    }, waiting);
  }
  const status = now.queuedRunIds.length > 0 ? "queued" : "idle";
  return { ...now, status, stopReason, activeRunId: undefined };
}

function notQueued(now: Conversation, runId: string | undefined): Conversation {
  return { ...now, queuedRunIds: now.queuedRunIds.filter((id) => id !== runId) };
}

/** Replaces the item with the same id, or appends the item. */
function put(now: Conversation, item: Item): Conversation {
  const index = now.items.findLastIndex((other) => other.id === item.id);
  return { ...now, items: index < 0 ? [...now.items, item] : now.items.with(index, item) };
}

function edit(now: Conversation, id: string, change: (item: Item) => Item): Conversation {
  const index = now.items.findLastIndex((item) => item.id === id);
  const item = now.items[index];
  if (item === undefined) return now;
  const changed = change(item);
  return changed === item ? now : { ...now, items: now.items.with(index, changed) };
}

function editTool(now: Conversation, id: string, change: (tool: Tool) => Tool): Conversation {
  return edit(now, id, (item) => (item.kind === "tool" ? change(item) : item));
}

/** Without the previews of a run that no event has replaced: that reply was discarded. */
function withoutPreviews(now: Conversation, runId: string | undefined): Conversation {
  const isKept = (item: Item) => !("isPreview" in item && item.isPreview && item.runId === runId);
  return now.items.every(isKept) ? now : { ...now, items: now.items.filter(isKept) };
}
