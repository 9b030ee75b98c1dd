/** The stream of the list of sessions. */

import { type Connection, ProblemError, type SessionChange, type Twostep } from "@twostep/client";

/** The component that shows the list. */
export interface ListReader {
  /** Reads the list. */
  refresh: () => Promise<void>;
  /** Applies a change. True if the list must be read again. */
  apply: (change: SessionChange) => boolean;
  /** The time between two reads if the stream is refused, in milliseconds. */
  interval: number;
}

/** Follows the stream of the list while the page is visible. Returns a function that ends this. */
export function followWhileVisible(client: Twostep, reader: ListReader): () => void {
  let shown: AbortController | undefined;
  const update = () => {
    if (document.visibilityState === "visible") {
      if (shown !== undefined) return;
      shown = new AbortController();
      void follow(client, reader, shown.signal);
    } else {
      shown?.abort();
      shown = undefined;
    }
  };
  update();
  document.addEventListener("visibilitychange", update);
  return () => {
    shown?.abort();
    document.removeEventListener("visibilitychange", update);
  };
}

/** Follows the stream of the list. Reads the list when the stream opens, so that no change is missed. */
async function follow(client: Twostep, reader: ListReader, signal: AbortSignal): Promise<void> {
  const { refresh, apply, interval } = reader;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const soon = () => {
    timer ??= setTimeout(() => {
      timer = undefined;
      if (!signal.aborted) void refresh();
    }, 200);
  };
  const onConnection = ({ state }: Connection) => {
    if (state === "open") void refresh();
  };
  try {
    for await (const change of client.sessionChanges({ signal, onConnection })) if (apply(change)) soon();
  } catch (error) {
    // The position is too old, after a long time without a connection.
    if (error instanceof ProblemError && error.code === "invalid_cursor") return follow(client, reader, signal);
    // The stream is refused, for example for the token of one session. `refresh` reports refusals of the list.
    while (!signal.aborted) {
      await refresh();
      await new Promise((resolve) => setTimeout(resolve, interval));
    }
  }
}
