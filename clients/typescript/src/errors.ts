/** The errors of the client. */

import type { Problem } from "./types.js";

/** A response of the service, or of a proxy before it, that is not a success. */
export class ProblemError extends Error {
  override readonly name = "ProblemError";
  /** The stable code of the service; absent if a proxy refused the request. */
  readonly code: Problem["code"] | undefined;
  /** The time after which a repetition is useful, in milliseconds. */
  readonly retryAfter: number | undefined;
  /** True if the same request can succeed later. */
  readonly isTemporary: boolean;
  /** True if the service has done nothing, so that any request can be repeated. */
  readonly isUnprocessed: boolean;

  /** `status` is the HTTP status, `problem` the whole problem document. */
  constructor(readonly status: number, readonly problem: Partial<Problem>, headers: Headers) {
    super(problem.detail ?? `the service replied with status ${status}`);
    this.code = problem.code;
    const seconds = Number(headers.get("retry-after") ?? Number.NaN);
    this.retryAfter = Number.isFinite(seconds) ? seconds * 1000 : undefined;
    const advice = headers.get("x-should-retry");
    this.isTemporary = advice !== "false" && [429, 502, 503, 504].includes(status);
    this.isUnprocessed = advice === "true";
  }
}
