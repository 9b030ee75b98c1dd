/** Calls that wait for a decision. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { InputView } from "../conversation/ToolCard";
import { client } from "../service/api";
import { act } from "../state/access";
import { type PendingApproval, approvals, settled } from "../state/approvals";
import { milliseconds, t } from "../text/text";
import { DiffView } from "./DiffView";
import { focusApproval, focusNext, isWriting } from "./focus";
import { type Edited, InputEditor, parsed } from "./InputEditor";

export function ApprovalList() {
  const ids = approvals.value.map((call) => call.tool_use_id).join(" ");
  useEffect(() => {
    if (ids !== "" && !isWriting()) focusApproval();
  }, [ids]);
  if (approvals.value.length === 0) return null;
  return (
    <section class="approvals" aria-label={t("approvals")}>
      {approvals.value.map((call) => (
        <Approval key={call.tool_use_id} call={call} />
      ))}
    </section>
  );
}

function Approval({ call }: { call: PendingApproval }) {
  const mode = useSignal<"decide" | "edit" | "deny">("decide");
  const reason = useSignal("");
  const given = call.input as Record<string, unknown>;
  const edited = useSignal<Edited>({ input: given, error: undefined });
  const isBusy = useSignal(false);
  const { sessionId, tool_use_id: id, name } = call;

  const decide = async (decision: () => Promise<unknown>) => {
    isBusy.value = true;
    const run = await act(decision);
    isBusy.value = false;
    if (run !== undefined) {
      settled(id);
      focusNext();
    }
  };
  const edit = () => {
    edited.value = { input: edited.value.input ?? given, error: undefined };
    mode.value = "edit";
  };
  const isEditing = mode.value === "edit";
  const { input, error } = isEditing ? edited.value : { input: undefined, error: undefined };
  const title = t(call.isSubAgent ? "wantsSub" : "wants", name);
  return (
    <article class="approval" tabIndex={-1} aria-label={title} data-call={id}>
      <h2>{title}</h2>
      {call.reason !== undefined && <p dir="auto">{call.reason}</p>}
      {isEditing ? (
        <InputEditor input={edited.peek().input ?? given} change={(now) => (edited.value = now)} />
      ) : call.diff !== undefined ? (
        <DiffView patch={call.diff} />
      ) : (
        <InputView name={name} input={visible(call)} text={call.display} />
      )}
      {error !== undefined && (
        <p class="error-text" role="alert">
          {error}
        </p>
      )}
      {mode.value === "deny" && (
        <label>
          {t("denyReason")}
          <input
            type="text"
            dir="auto"
            maxLength={2000}
            value={reason}
            onInput={(event) => (reason.value = event.currentTarget.value)}
          />
        </label>
      )}
      <div class="row">
        {mode.value !== "deny" && (
          <button
            type="button"
            class="primary"
            disabled={isBusy.value || error !== undefined}
            onClick={() => void decide(() => client.approve(sessionId, id, isSame(input, given) ? {} : { input }))}
          >
            {t(isEditing ? "approveEdited" : "approve")}
          </button>
        )}
        {mode.value === "decide" && (
          <>
            <button
              type="button"
              disabled={isBusy.value}
              onClick={() => void decide(() => client.approve(sessionId, id, { remember: "session" }))}
            >
              {t("approveSession")}
            </button>
            <button type="button" onClick={edit}>
              {t("editInput")}
            </button>
          </>
        )}
        {mode.value !== "edit" && (
          <button
            type="button"
            class="danger"
            disabled={isBusy.value}
            onClick={() => {
              if (mode.value === "decide") mode.value = "deny";
              else void decide(() => client.deny(sessionId, id, reason.value.trim() || undefined));
            }}
          >
            {t("deny")}
          </button>
        )}
        {mode.value !== "decide" && (
          <button type="button" onClick={() => (mode.value = "decide")}>
            {t("cancel")}
          </button>
        )}
        <Deadline time={call.answer_by} />
      </div>
    </article>
  );
}

/** An input that was opened and not changed is the one of the model. */
function isSame(input: Record<string, unknown> | undefined, given: Record<string, unknown>): boolean {
  return input === undefined || JSON.stringify(input) === JSON.stringify(given);
}

/** The input with hidden characters as escapes, as the service shows it to people. */
function visible(call: PendingApproval): Record<string, unknown> | undefined {
  return parsed(call.display);
}

function Deadline({ time }: { time: string }) {
  const now = useSignal(Date.now());
  useEffect(() => {
    const timer = setInterval(() => (now.value = Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  const left = Math.max(0, Date.parse(time) - now.value);
  return (
    <span class="note">{t("deadline", left < 60_000 ? milliseconds(left) : `${Math.floor(left / 60_000)} min`)}</span>
  );
}
