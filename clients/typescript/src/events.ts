/** Event streams that continue across lost connections. */

import { EventSourceParserStream } from "eventsource-parser/stream";
import { ProblemError } from "./errors.js";
import { type Http, pause } from "./http.js";
import type { StreamEvent } from "./types.js";

/** The state of a stream's connection. */
export interface Connection {
  state: "connecting" | "open" | "waiting";
  /** The number of failed connections since the last event. */
  failures: number;
  /** The cause of the last failure. */
  error?: unknown;
}

export interface EventsOptions {
  /** The number of the last event that the caller has: the stream continues after it [default: 0]. */
  after?: number;
  /** False leaves out previews of text, thinking and tool input [default: true]. */
  previews?: boolean;
  /** Ends the stream. */
  signal?: AbortSignal;
  /** Called whenever the state of the connection changes. */
  onConnection?: (connection: Connection) => void;
}

/**
 * Yields every event after a number exactly once, in order, and previews in between. Reconnects when the
 * connection is lost. Ends when the session is deleted, when `signal` is aborted and, with `isRun`, when
 * the run settles or waits for the client. Throws a `ProblemError` that a repetition cannot change.
 */
export async function* events(
  http: Http,
  path: string,
  options: EventsOptions & { isRun?: boolean },
): AsyncGenerator<StreamEvent, void, undefined> {
  const { signal, onConnection } = options;
  let after = options.after ?? 0;
  for (let failures = 0; signal?.aborted !== true; ) {
    let error: unknown = new Error("the connection was lost");
    onConnection?.({ state: "connecting", failures });
    try {
      const query = { after, deltas: options.previews === false ? false : undefined };
      const response = await http.send(path, { query, signal }, "text/event-stream");
      if (response.status === 204 || response.body === null) return;
      onConnection?.({ state: "open", failures });
      const frames = response.body.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream());
      for await (const frame of each(frames)) {
        const event = JSON.parse(frame.data) as StreamEvent;
        failures = 0;
        if ("seq" in event) {
          if (event.seq <= after) continue;
          after = event.seq;
        }
        yield event;
        if (event.type === "session.deleted") return;
      }
      // The service ends the stream of a run cleanly only after its last event.
      if (options.isRun) return;
    } catch (cause) {
      if (signal?.aborted) return;
      if (cause instanceof ProblemError && !cause.isTemporary) throw cause;
      error = cause;
    }
    failures++;
    onConnection?.({ state: "waiting", failures, error });
    await pause(error, failures, signal);
  }
}

/** The items of a stream. Unlike `for await` over the stream itself, this works in every browser. */
async function* each<T>(stream: ReadableStream<T>): AsyncGenerator<T, void, undefined> {
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
