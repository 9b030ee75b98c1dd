/**
 * The types of the API by their short names. `npm run types` of this package writes schema.d.ts from the OpenAPI
 * document, with each schema as a type of its own (`--root-types`).
 */

import type * as schema from "./schema.js";

export type {
  ApprovalResource as Approval, ContentBlock, CreateFork, CreateMessage, DecideCall, FileResource as UploadedFile,
  HistoryItem, Problem, RunResource as Run, SessionListEvent as SessionChange, SessionResource as Session, StopReason,
  Streamed as StreamEvent, UpdateSession, Usage,
} from "./schema.js";

export type CreateSession = Partial<schema.CreateSession>;
export type ToolResult = schema.CreateToolResults["results"][number];
export type Todo = schema.SessionTodosEvent["todos"][number];

/** A page of a list. `next_cursor` is the `after` of the next page. */
export type Page<Item> = { data: Item[]; has_more: boolean; next_cursor?: string | null };
