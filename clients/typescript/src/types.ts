/** The types of the API, as the OpenAPI document describes them. */

import type { components } from "./schema.js";

type Schemas = components["schemas"];

export type Session = Schemas["SessionResource"];
export type CreateSession = Partial<Schemas["CreateSession"]>;
export type UpdateSession = Schemas["UpdateSession"];
export type Run = Schemas["RunResource"];
export type CreateMessage = Schemas["CreateMessage"];
export type CreateFork = Schemas["CreateFork"];
export type Approval = Schemas["ApprovalResource"];
export type DecideCall = Schemas["DecideCall"];
export type ToolResult = Schemas["CreateToolResults"]["results"][number];
export type HistoryItem = Schemas["HistoryItem"];
export type Problem = Schemas["Problem"];
export type StopReason = Schemas["StopReason"];
export type Usage = Schemas["Usage"];
export type Todo = Schemas["SessionTodosEvent"]["todos"][number];
export type ContentBlock = Schemas["ContentBlock"];
/** An event, a preview or a notice: everything that a stream contains. */
export type StreamEvent = Schemas["Streamed"];

/** A page of a list. `next_cursor` is the `after` of the next page. */
export interface Page<Item> {
  data: Item[];
  has_more: boolean;
  next_cursor?: string | null;
}
