/** The tool servers that offer other tools than those that the open session has, from its events. */

import { signal } from "@preact/signals";
import type { StreamEvent } from "@twostep/client";

export type ServerChange = Extract<StreamEvent, { type: "session.tool_server_changed" }>;

/** The newest change of each server whose offer still differs. */
export const serverChanges = signal<readonly ServerChange[]>([]);

/** Takes the changes from events. */
export function rememberServers(events: readonly StreamEvent[]): void {
  for (const event of events) {
    if (event.type !== "session.tool_server_changed") continue;
    const others = serverChanges.peek().filter(({ server }) => server !== event.server);
    const isDifferent = [event.added, event.removed, event.changed].some((tools) => tools.length > 0);
    serverChanges.value = isDifferent ? [...others, event] : others;
  }
}
