/** The steps of a run with their times, from its events. */

import type { StreamEvent } from "@twostep/client";
import { t } from "../text/text";

type End = Extract<StreamEvent, { type: "span.model_request_end" }>;
export type PrefixChange = NonNullable<End["prefix_changed"]>;

/** The part of a request that ended the prefix that the cache had, in words. */
export function reasonOf(change: PrefixChange): string {
  return change.level === "messages" ? t("level_messages", change.index) : t(`level_${change.level}`);
}


export interface Span {
  id: string;
  kind: "model" | "tool" | "wait" | "retry" | "takeover";
  name: string;
  /** Milliseconds since 1970. */
  start: number;
  end: number | undefined;
  isError: boolean;
  /** The change that ended the cached prefix at this request. */
  prefixChange?: PrefixChange;
}

type Event = Extract<StreamEvent, { seq: number }>;

/** The claim after a decision of the client is no takeover: nothing has happened since the wait. */
function followsDecision(spans: readonly Span[]): boolean {
  const end = spans.findLast(({ kind }) => kind === "wait")?.end;
  return end !== undefined && spans.every(({ kind, start }) => kind === "wait" || start <= end);
}

/** The spans after an event. */
export function withEvent(spans: readonly Span[], event: Event): readonly Span[] {
  const at = Date.parse(event.created_at);
  const add = (span: Omit<Span, "start" | "end" | "isError"> & Partial<Span>) => [
    ...spans.filter(({ id }) => id !== span.id),
    { start: at, end: undefined, isError: false, ...span },
  ];
  const end = (id: string, changes: Partial<Span>) =>
    spans.map((span) => (span.id === id ? { ...span, end: at, ...changes } : span));
  switch (event.type) {
    case "session.status_running":
      if (event.attempt > 1 && !followsDecision(spans))
        return add({ id: event.id, kind: "takeover", name: t("takeover", event.attempt), end: at });
      return spans;
    case "span.model_request_start":
      return add({ id: event.id, kind: "model", name: event.model });
    case "span.model_request_end":
      return end(event.model_request_start_id, {
        isError: event.is_error,
        ...(event.prefix_changed != null && { prefixChange: event.prefix_changed }),
      });
    case "session.status_rescheduled":
      return add({
        id: event.id,
        kind: "retry",
        name: t("retryAt", event.attempt),
        end: Date.parse(event.retry_at ?? "") || at,
      });
    case "agent.tool_use":
    case "agent.custom_tool_use":
      return add({ id: event.id, kind: "tool", name: event.name });
    case "agent.tool_result": {
      const start = at - event.duration_ms;
      return end(event.tool_use_id, { isError: event.is_error, ...(event.duration_ms > 0 && { start }) });
    }
    case "user.custom_tool_result":
      return end(event.custom_tool_use_id, { isError: event.is_error });
    case "user.tool_confirmation":
      return end(`wait ${event.tool_use_id}`, {});
    case "session.status_idle": {
      if (event.stop_reason.type !== "requires_action") return spans.map((span) => ({ ...span, end: span.end ?? at }));
      const known = new Set(spans.map(({ id }) => id));
      const waits = event.stop_reason.event_ids.filter((id) => !known.has(`wait ${id}`));
      const added = waits.map((id): Span => ({
        id: `wait ${id}`,
        kind: "wait",
        name: t("wait"),
        start: at,
        end: undefined,
        isError: false,
      }));
      return [...spans, ...added];
    }
    default:
      return spans;
  }
}
