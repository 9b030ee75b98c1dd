/** Short reports for screen readers. The log itself is silent: each token would be read aloud. */

import { effect, signal } from "@preact/signals";
import { approvals } from "../state/approvals";
import { conversation, isLoaded } from "../state/thread";
import { t } from "../text/text";

const said = signal("");

export function announce(text: string): void {
  said.value = text;
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
    <div role="status" class="visually-hidden">
      {said.value}
    </div>
  );
}
