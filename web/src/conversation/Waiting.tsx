/** What the session waits for, in words, and the button that ends the wait. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { focusApproval } from "../approvals/focus";
import { type Explanation, client, read } from "../service/api";
import { act } from "../state/access";
import { openId } from "../state/route";
import { conversation } from "../state/thread";
import { moment, named, t } from "../text/text";

/** A state lasts this long, in milliseconds, before its reason is asked for. */
const patience = 3000;

export function Waiting() {
  const explanation = useSignal<Explanation | undefined>(undefined);
  const { status, activeRunId, queuedRunIds, queue, seq } = conversation.value;
  const runId = activeRunId ?? queuedRunIds[0];
  const id = openId.value;

  useEffect(() => {
    explanation.value = undefined;
    if (id === undefined || runId === undefined || status === "idle") return;
    const ask = () => {
      const path = `/sessions/${id}/runs/${runId}/explain`;
      // A reason that cannot be read, for example by a token, is left out.
      void read<Explanation>(path).then(
        (found) => (explanation.value = found),
        () => undefined,
      );
    };
    const timer = setTimeout(ask, patience);
    return () => clearTimeout(timer);
  }, [id, runId, status, seq]);

  if (id === undefined || status === "idle") return null;
  const { waits_for: waitsFor, since, deadline, unblocked_by: remedy, sentence } = explanation.value ?? {};
  const end = () => {
    if (remedy?.path.includes("/approvals/")) focusApproval();
    else void act(() => client.stop(id, runId));
  };
  return (
    <div class={`waiting waiting-${status}`}>
      <span class="pulse" aria-hidden="true" />
      <span>
        {status === "queued" && queue !== undefined ? t("queuedAt", queue.position, queue.length) : t(status)}
        {waitsFor != null && (
          <span class="note" title={sentence}>
            {" "}
            {named("waits_", waitsFor)} {since !== undefined && t("since", moment(since))}
            {deadline !== undefined && ` → ${moment(deadline)}`}
          </span>
        )}
      </span>
      {waitsFor != null && waitsFor !== "model" && waitsFor !== "tool" && (
        <button type="button" onClick={end}>
          {remedy?.path.includes("/approvals/") ? t("decide") : t("stop")}
        </button>
      )}
    </div>
  );
}
