/** Event streams that continue across lost connections. */

import { createParser, type EventSourceMessage } from "eventsource-parser";
import { ProblemError } from "./errors.js";
import { type Http, pause, type Query } from "./http.js";

/** The state of a stream's connection, the number of failed connections since the last event, and the last cause. */
export type Connection = { state: "connecting" | "open" | "waiting"; failures: number; error?: unknown };

export interface EventsOptions {
  /** The number of the last event that the caller has: the stream continues after it [default: 0]. */
  after?: number | string;
  /** Other parameters of the stream. */
  query?: Query;
  /** False leaves out previews of text, thinking and tool input [default: true]. */
  previews?: boolean;
  /** Ends the stream. */
  signal?: AbortSignal;
  /** Called whenever the state of the connection changes. */
  onConnection?: (connection: Connection) => void;
}

/** The service writes at least every 10 seconds: a connection that is silent for longer is lost. */
const SILENCE_MS = 40_000;

/**
 * Yields every event after a number exactly once, in order, and previews in between. Reconnects when the
 * connection is lost. Ends when the session is deleted, when `signal` is aborted and, with `isRun`, when
 * the run settles or waits for the client. Throws a `ProblemError` that a repetition cannot change.
 */
export async function* events<Event extends { type: string }>(http: Http, path: string, options: EventsOptions, isRun?: true) {
  const { signal, onConnection } = options;
  let after = options.after?.toString();
  for (let failures = 0; signal?.aborted !== true; ) {
    let error: unknown = new Error("the connection was lost");
    let last: string | undefined;
    let opened = Number.NaN;
    onConnection?.({ state: "connecting", failures });
    try {
      const query = { ...options.query, after, deltas: options.previews === false ? false : undefined };
      const response = await http.send(path, { query, signal }, "text/event-stream");
      if (response.status === 204 || response.body === null) return;
      onConnection?.({ state: "open", failures });
      opened = Date.now();
      for await (const { id, data } of frames(response.body)) {
        const event = JSON.parse(data) as Event;
        // The number of the event, or a position in the list of sessions. Previews have none.
        if (id !== undefined && Number(id) <= Number(after)) continue;
        after = id ?? after;
        last = event.type;
        failures = 0;
        yield event;
        if (event.type === "session.deleted") return;
      }
      // Some proxies end a stream cleanly that was cut. Only this event ends the stream of a run.
      if (isRun && last === "session.status_idle") return;
    } catch (cause) {
      if (signal?.aborted) return;
      if (cause instanceof ProblemError && !cause.isTemporary) throw cause;
      error = cause;
    }
    // A connection that was open for a while was no failure, although a silent session has no event.
    failures = Date.now() - opened > 5_000 ? 1 : failures + 1;
    onConnection?.({ state: "waiting", failures, error });
    await pause(error, failures, signal);
  }
}

/** The frames of a stream, until the connection ends or is silent for too long. */
async function* frames(body: ReadableStream<Uint8Array>) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const complete: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (frame) => complete.push(frame) });
  const cancel = () => reader.cancel().catch(() => undefined);
  try {
    for (;;) {
      const timer = setTimeout(cancel, SILENCE_MS);
      const { done, value } = await reader.read().finally(() => clearTimeout(timer));
      if (done) return;
      parser.feed(decoder.decode(value, { stream: true }));
      yield* complete.splice(0);
    }
  } finally {
    await cancel();
  }
}
