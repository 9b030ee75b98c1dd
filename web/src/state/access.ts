/** The key of this tab, and errors that the page shows. */

import { signal } from "@preact/signals";
import { ProblemError } from "@twostep/client";
import { t } from "../text/text";
import { ofTab } from "./stored";

export const key = signal(ofTab.get("key"));
/** True while the service refuses requests without a key, or with this key. */
export const isRefused = signal(false);
/** Increases when a new key is entered: what a refusal has interrupted continues. */
export const keyVersion = signal(0);

export function useKey(value: string | undefined): void {
  ofTab.set("key", value);
  key.value = value;
  isRefused.value = false;
  keyVersion.value++;
}

/** Why the service does not accept a request yet, which the client repeats; undefined after a success. */
export const refusal = signal<string | undefined>(undefined);

/** Sends a request, and keeps the reason of a refusal that passes. */
export const observed: typeof fetch = async (...request) => {
  const response = await fetch(...request);
  if (request[1]?.method !== "POST") return response;
  const isRefusal = [429, 502, 503, 504].includes(response.status);
  const problem = isRefusal ? response.clone().json() : Promise.resolve(undefined);
  void problem.catch(() => ({})).then((found?: { detail?: string }) => {
    refusal.value = isRefusal ? (found?.detail ?? String(response.status)) : undefined;
  });
  return response;
};

export interface Notice {
  text: string;
  requestId: string | undefined;
}

/** The error of the last action; undefined if it succeeded. */
export const notice = signal<Notice | undefined>(undefined);

export function describe(error: unknown): Notice {
  if (error instanceof ProblemError) {
    if (error.status === 403) return { text: t("notAllowed"), requestId: error.problem.request_id };
    return { text: error.message, requestId: error.problem.request_id };
  }
  const isNetwork = error instanceof TypeError;
  return { text: isNetwork ? t("unreachable") : String((error as Error)?.message ?? error), requestId: undefined };
}

/** Shows an error, or asks for a key if that is the remedy. */
export function report(error: unknown): void {
  if (error instanceof DOMException && error.name === "AbortError") return;
  if (error instanceof ProblemError && error.status === 401) isRefused.value = true;
  else notice.value = describe(error);
}

/** Runs an action of the user. Returns undefined if it failed, which is then shown. */
export async function act<T>(action: () => Promise<T>): Promise<T | undefined> {
  notice.value = undefined;
  try {
    return await action();
  } catch (error) {
    report(error);
    return undefined;
  }
}
