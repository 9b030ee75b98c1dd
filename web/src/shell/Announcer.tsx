/** Short reports for screen readers. The log itself is silent: each token would be read aloud. */

import { effect, signal } from "@preact/signals";
import { approvals } from "../state/approvals";
import { conversation, isLoaded } from "../state/thread";
import { t } from "../text/text";

const said = signal("");
/** The report that is also visible for a moment, where the result of an action is not. */
const shown = signal("");
let hides: ReturnType<typeof setTimeout> | undefined;

export function announce(text: string): void {
  said.value = text;
}

/** Reports the result of an action to all readers. */
export function confirm(text: string): void {
  announce(text);
  shown.value = text;
  clearTimeout(hides);
  hides = setTimeout(() => (shown.value = ""), 2000);
}

let before = "";
effect(() => {
  const { status } = conversation.value;
  const now = approvals.value.length > 0 ? "approval" : status === "idle" ? "idle" : "works";
  if (now === before) return;
  const wasWorking = before === "works" || before === "approval";
  before = now;
  if (!isLoaded.value) return;
  if (now === "approval") announce(t("approvalNeeded"));
  else if (now === "works") announce(t("agentWorks"));
  else if (wasWorking) announce(t("agentDone"));
});

export function Announcer() {
  return (
    <>
      <div role="status" class="visually-hidden">
        {said.value}
      </div>
      {shown.value !== "" && (
        <div class="toast" aria-hidden="true">
          {shown.value}
        </div>
      )}
    </>
  );
}
