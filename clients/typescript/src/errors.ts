/** The errors of the client. */

import type { Problem } from "./types.js";

/** A response of the service, or of a proxy before it, that is not a success. */
export class ProblemError extends Error {
  override readonly name = "ProblemError";
  /** The HTTP status. */
  readonly status: number;
  /** The stable code of the service; absent if a proxy refused the request. */
  readonly code: Problem["code"] | undefined;
  /** The whole problem document. */
  readonly problem: Partial<Problem>;
  /** The time after which a repetition is useful, in milliseconds. */
  readonly retryAfter: number | undefined;
  /** True if the same request can succeed later. */
  readonly isTemporary: boolean;
  /** True if the service has done nothing, so that any request can be repeated. */
  readonly isUnprocessed: boolean;

  constructor(response: Response, problem: Partial<Problem>) {
    super(problem.detail ?? `the service replied with status ${response.status}`);
    this.status = response.status;
    this.code = problem.code;
    this.problem = problem;
    const seconds = Number(response.headers.get("retry-after") ?? Number.NaN);
    this.retryAfter = Number.isFinite(seconds) ? seconds * 1000 : undefined;
    const advice = response.headers.get("x-should-retry");
    this.isTemporary = advice !== "false" && [429, 502, 503, 504].includes(response.status);
    this.isUnprocessed = advice === "true";
  }

  static async of(response: Response): Promise<ProblemError> {
    const problem: unknown = await response.json().catch(() => undefined);
    return new ProblemError(response, typeof problem === "object" && problem !== null ? problem : {});
  }
}
