/** The focus of the first call that waits for a decision. */

export function focusApproval(): void {
  document.querySelector<HTMLElement>(".approval")?.focus();
}

/** Reports whether the user is writing: the focus then stays where it is. */
export function isWriting(): boolean {
  const active = document.activeElement;
  return (active instanceof HTMLTextAreaElement || active instanceof HTMLInputElement) && active.value !== "";
}
