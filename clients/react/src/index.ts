export { TwostepProvider, useClient } from "./context.js";
export type { AssistantMessage, Message, MessageContent, Part, PendingCall, UserMessage } from "./messages.js";
export type { ClientTools } from "./session-store.js";
export { type ThreadsOptions, type UseThreads, useThreads } from "./use-threads.js";
export { type TwostepOptions, type UseTwostep, useTwostep } from "./use-twostep.js";
