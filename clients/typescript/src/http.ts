/** Requests: URL, headers, retries. */

import { ProblemError } from "./errors.js";

/** Why the headers are asked for again: the service refused the last ones. */
export type HeadersReason = "unauthenticated";

/** Parameters of a request. */
export type Query = Record<string, string | number | boolean | undefined>;

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
  /** The number of times that a request is sent before it fails [default: 6]. */
  maxTries?: number;
}

/** A request. */
export interface RequestInfo {
  method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  query?: Query;
  /** Sent as JSON; a `Blob` as it is. */
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
        const isLast = tries >= (this.options.maxTries ?? 6) || request.signal?.aborted === true;
        // `fetch` reports a lost connection as a `TypeError`: the request may have had its effect.
        const isLost = { isTemporary: error instanceof TypeError, isUnprocessed: false };
        const { isTemporary, isUnprocessed } = error instanceof ProblemError ? error : isLost;
        if (isLast || !(isUnprocessed || (isTemporary && request.isRepeatable !== false))) throw error;
        await pause(error, tries, request.signal);
      }
    }
  }

  /** Sends a request, once more after a 401. Returns the response if it is a success. */
  async send(path: string, request: RequestInfo, accept: string, reason?: HeadersReason): Promise<Response> {
    const { baseUrl, headers: given, fetch = globalThis.fetch } = this.options;
    const url = new URL(`${String(baseUrl).replace(/\/+$/, "")}/v1${path}`, globalThis.location?.href);
    for (const [name, value] of Object.entries(request.query ?? {})) {
      if (value !== undefined) url.searchParams.set(name, String(value));
    }
    const headers = new Headers(typeof given === "function" ? await given(reason) : given);
    headers.set("accept", accept);
    for (const [name, value] of Object.entries(request.headers ?? {})) headers.set(name, value);
    const isFile = request.body instanceof Blob;
    const body = isFile ? (request.body as Blob) : (JSON.stringify(request.body) ?? null);
    if (body !== null && !isFile) headers.set("content-type", "application/json");
    const response = await fetch(url, { method: request.method ?? "GET", headers, body, signal: request.signal ?? null });
    if (response.ok) return response;
    const isRefused = response.status === 401 && reason === undefined;
    if (isRefused && typeof given === "function") return this.send(path, request, accept, "unauthenticated");
    const problem: unknown = await response.json().catch(() => undefined);
    throw new ProblemError(response.status, Object(problem) as object, response.headers);
  }
}

/** Waits before the next try: as long as the service asks for, otherwise longer each time. */
export async function pause(error: unknown, tries: number, signal?: AbortSignal): Promise<void> {
  const asked = error instanceof ProblemError ? error.retryAfter : undefined;
  const backoff = Math.min(500 * 2 ** (tries - 1), 10_000);
  // Jitter only adds to the time that the service asks for.
  const wait = asked === undefined ? backoff * (0.5 + Math.random() / 2) : asked + 250 * Math.random();
  const over = new AbortController();
  const timer = setTimeout(() => over.abort(), wait);
  const end = signal ? AbortSignal.any([signal, over.signal]) : over.signal;
  if (!end.aborted) await new Promise((resolve) => end.addEventListener("abort", resolve));
  clearTimeout(timer);
}

/** An id that is unique for what the user does. Works also on pages without a secure context. */
export const uniqueId = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
