/** What the session waits for, in words, and the button that ends the wait. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { focusApproval } from "../approvals/focus";
import { type Explanation, client, read } from "../service/api";
import { act } from "../state/access";
import { approvals } from "../state/approvals";
import { troubles } from "../state/health";
import { openId } from "../state/route";
import { conversation } from "../state/thread";
import { clock, named, t } from "../text/text";

/** A state lasts this long, in milliseconds, before its reason is asked for, and for an event in it. */
const patience = 3000;
const pause = 300;

export function Waiting() {
  const explanation = useSignal<Explanation | undefined>(undefined);
  const { status, activeRunId, queuedRunIds, queue, seq } = conversation.value;
  const runId = activeRunId ?? queuedRunIds[0];
  const id = openId.value;

  useEffect(() => {
    explanation.value = undefined;
  }, [id, runId, status]);
  useEffect(() => {
    // A run that waits stays explained when its wait is prolonged. One that works has another reason after each event.
    if (status === "running") explanation.value = undefined;
    if (id === undefined || runId === undefined || status === "idle") return;
    const ask = () => {
      const path = `/sessions/${id}/runs/${runId}/explain`;
      // A reason that cannot be read, for example by a token, is left out.
      void read<Explanation>(path).then(
        (found) => (explanation.value = found),
        () => undefined,
      );
    };
    const timer = setTimeout(ask, explanation.value === undefined ? patience : pause);
    return () => clearTimeout(timer);
  }, [id, runId, status, seq]);

  if (id === undefined || status === "idle") return null;
  const { waits_for: waitsFor, since, deadline, unblocked_by: remedy, sentence } = explanation.value ?? {};
  // A call of a sub-agent is decided here: the run itself waits for the call of the sub-agent.
  const isAsked = approvals.value.length > 0 || remedy?.path.includes("/approvals/") === true;
  // The service explains a try as sent when its time has come. It is not while requests to the model pause.
  const isPaused = status === "retrying" && waitsFor === "model" && troubles.value.some(({ name }) => name === "model");
  const reason = isAsked ? "approval" : isPaused ? "retry" : waitsFor;
  const end = () => {
    if (isAsked) focusApproval();
    else void act(() => client.stop(id, runId));
  };
  return (
    <div class={`waiting waiting-${status}`}>
      <span class="pulse" aria-hidden="true" />
      <span>
        {status === "queued" && queue !== undefined ? t("queuedAt", queue.position, queue.length) : t(isAsked ? "waits_approval" : status)}
        {reason != null && (
          <span class="note">
            {" "}
            {!isAsked && named("waits_", reason)} {since !== undefined && t("since", clock(since))}
            {deadline !== undefined && ` → ${clock(deadline)}`}
          </span>
        )}
        {sentence !== undefined && !isPaused && (
          <details class="why">
            <summary>{t("whyWaiting")}</summary>
            <p lang="en">{sentence}</p>
          </details>
        )}
      </span>
      {reason != null && reason !== "model" && reason !== "tool" && (
        <button type="button" onClick={end}>
          {t(isAsked ? "decide" : "stop")}
        </button>
      )}
    </div>
  );
}
