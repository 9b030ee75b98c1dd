/** Calls that wait for a decision. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { InputView } from "../conversation/ToolCard";
import { client } from "../service/api";
import { act } from "../state/access";
import { type PendingApproval, approvals, settled } from "../state/approvals";
import { milliseconds, t } from "../text/text";
import { DiffView } from "./DiffView";
import { focusApproval, isWriting } from "./focus";

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
  const edited = useSignal(JSON.stringify(call.input, null, 2));
  const isBusy = useSignal(false);
  const { sessionId, tool_use_id: id, name } = call;

  const decide = async (decision: () => Promise<unknown>) => {
    isBusy.value = true;
    const run = await act(decision);
    isBusy.value = false;
    if (run !== undefined) {
      settled(id);
      document.getElementById("message")?.focus();
    }
  };
  const isEditing = mode.value === "edit";
  const input = isEditing ? parsed(edited.value) : undefined;
  const isInvalid = isEditing && input === undefined;
  const title = t(call.isSubAgent ? "wantsSub" : "wants", name);
  return (
    <article class="approval" tabIndex={-1} aria-label={title} data-call={id}>
      <h2>{title}</h2>
      {call.reason !== undefined && <p dir="auto">{call.reason}</p>}
      {isEditing ? (
        <label>
          {t("input")}
          <textarea
            class="code"
            rows={8}
            dir="ltr"
            spellcheck={false}
            value={edited}
            aria-invalid={isInvalid}
            onInput={(event) => (edited.value = event.currentTarget.value)}
          />
        </label>
      ) : call.diff !== undefined ? (
        <DiffView patch={call.diff} />
      ) : (
        <InputView name={name} input={visible(call)} text={call.display} />
      )}
      {isInvalid && <p class="error-text">{t("invalidJson")}</p>}
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
            disabled={isBusy.value || isInvalid}
            onClick={() => void decide(() => client.approve(sessionId, id, input === undefined ? {} : { input }))}
          >
            {t("approve")}
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
            <button type="button" onClick={() => (mode.value = "edit")}>
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

/** The input with hidden characters as escapes, as the service shows it to people. */
function visible(call: PendingApproval): Record<string, unknown> | undefined {
  return parsed(call.display);
}

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    return isObject ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
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
