export { Twostep, type SendOptions } from "./client.js";
export { ProblemError } from "./errors.js";
export type { Connection, EventsOptions } from "./events.js";
export type { HeadersReason, Options } from "./http.js";
export { type Conversation, empty, type Item, reduce, type ToolState } from "./reduce.js";
export type * from "./types.js";
