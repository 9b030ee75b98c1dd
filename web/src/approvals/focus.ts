/** The focus of the first call that waits for a decision. */

import { hasTouch } from "../shell/touch";

export function focusApproval(): void {
  document.querySelector<HTMLElement>(".approval")?.focus();
}

/** Moves the focus on after a decision: to the input, or with a touch screen, whose keyboard would open, to the log. */
export function focusNext(): void {
  document.getElementById(hasTouch() ? "log" : "message")?.focus();
}

/** Reports whether the user is writing: the focus then stays where it is. */
export function isWriting(): boolean {
  const active = document.activeElement;
  return (active instanceof HTMLTextAreaElement || active instanceof HTMLInputElement) && active.value !== "";
}
