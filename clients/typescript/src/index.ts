export * from "./client.js";
export * from "./errors.js";
export type * from "./events.js";
export { type HeadersReason, type Options, type Query, type RequestInfo, uniqueId } from "./http.js";
export * from "./reduce.js";
export type * from "./types.js";
