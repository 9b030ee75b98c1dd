/** Requests: URL, headers, retries. */

import { ProblemError } from "./errors.js";

/** Why the headers are asked for again: the service refused the last ones. */
export type HeadersReason = "unauthenticated";

export interface Options {
  /** The URL of the service, with the path under which a proxy serves it, without `/v1`. */
  baseUrl: string | URL;
  /**
   * Headers of every request, for example `Authorization`. A function is called for each request; after
   * a 401 it is called once more, with the reason, so that it can get a new token.
   */
  headers?: HeadersInit | ((reason?: HeadersReason) => HeadersInit | Promise<HeadersInit>);
  /** A replacement for the global `fetch`. */
  fetch?: typeof globalThis.fetch;
  /** The number of times that a request is sent before it fails [default: 5]. */
  maxTries?: number;
}

/** A request. */
export interface RequestInfo {
  method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  query?: Record<string, string | number | boolean | undefined>;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
  /** False if a repetition would have another effect. Then only refusals without effect are repeated. */
  isRepeatable?: boolean;
}

export class Http {
  constructor(private readonly options: Options) {}

  /** Sends a request until it succeeds, and returns the body of the response. */
  async json<T>(path: string, request: RequestInfo = {}): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        const response = await this.send(path, request, "application/json");
        return (response.status === 204 ? undefined : await response.json()) as T;
      } catch (error) {
        const isLast = tries >= (this.options.maxTries ?? 5) || request.signal?.aborted === true;
        if (isLast || !canRepeat(error, request.isRepeatable ?? true)) throw error;
        await pause(error, tries, request.signal);
      }
    }
  }

  /** Sends a request once. Returns the response if it is a success. */
  async send(path: string, request: RequestInfo, accept: string): Promise<Response> {
    const first = await this.sendWith(path, request, accept);
    if (first.ok) return first;
    if (first.status === 401 && typeof this.options.headers === "function") {
      const second = await this.sendWith(path, request, accept, "unauthenticated");
      if (second.ok) return second;
      throw await ProblemError.of(second);
    }
    throw await ProblemError.of(first);
  }

  private async sendWith(path: string, request: RequestInfo, accept: string, reason?: HeadersReason) {
    const given = this.options.headers;
    const headers = new Headers(typeof given === "function" ? await given(reason) : given);
    headers.set("accept", accept);
    for (const [name, value] of Object.entries(request.headers ?? {})) headers.set(name, value);
    const init: RequestInit = { method: request.method ?? "GET", headers };
    if (request.signal) init.signal = request.signal;
    if (request.body !== undefined) {
      headers.set("content-type", "application/json");
      init.body = JSON.stringify(request.body);
    }
    const send = this.options.fetch ?? globalThis.fetch;
    return send(this.url(path, request.query), init);
  }

  private url(path: string, query: RequestInfo["query"] = {}): URL {
    const base = globalThis.location?.href;
    const url = new URL(`${String(this.options.baseUrl).replace(/\/+$/, "")}/v1${path}`, base);
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined) url.searchParams.set(name, String(value));
    }
    return url;
  }
}

function canRepeat(error: unknown, isRepeatable: boolean): boolean {
  if (error instanceof ProblemError) return error.isUnprocessed || (isRepeatable && error.isTemporary);
  // `fetch` reports a lost connection as a `TypeError`: the request may have had its effect.
  return isRepeatable && error instanceof TypeError;
}

/** Waits before the next try: as long as the service asks for, otherwise longer each time. */
export async function pause(error: unknown, tries: number, signal?: AbortSignal): Promise<void> {
  const asked = error instanceof ProblemError ? error.retryAfter : undefined;
  const backoff = asked ?? Math.min(500 * 2 ** (tries - 1), 10_000);
  // Jitter only adds to the time that the service asks for.
  const wait = asked === undefined ? backoff * (0.5 + Math.random() / 2) : backoff + 250 * Math.random();
  await new Promise<void>((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, wait);
    signal?.addEventListener("abort", done);
    if (signal?.aborted) done();
  });
}

/** An id that is unique for what the user does. Works also on pages without a secure context. */
export function uniqueId(): string {
  const bytes = globalThis.crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
