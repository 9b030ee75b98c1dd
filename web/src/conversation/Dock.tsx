/** The state above the input: tasks, waits, messages that are on their way or queued, approvals. */

import { ApprovalList } from "../approvals/ApprovalList";
import { ClientResults } from "../approvals/ClientResults";
import { client } from "../service/api";
import { act, refusal } from "../state/access";
import { forget, outbox, repost } from "../state/outbox";
import { openId } from "../state/route";
import { conversation, outcome } from "../state/thread";
import { named, t } from "../text/text";
import { RetryButton } from "./RetryButton";
import { Sources } from "./Sources";
import { ToolServers } from "./ToolServers";
import { Troubles } from "./Troubles";
import { Content, summaryOf } from "./UserMessage";
import { Waiting } from "./Waiting";

export function Dock() {
  return (
    <div class="dock">
      <ToolServers />
      <Troubles />
      <Sources />
      <Todos />
      <ApprovalList />
      <ClientResults />
      <Queue />
      <Outbox />
      <Waiting />
      <Stopped />
    </div>
  );
}

function Todos() {
  const { todos } = conversation.value;
  if (todos.length === 0) return null;
  const done = todos.filter(({ status }) => status === "completed").length;
  return (
    <details class="todos">
      <summary>
        {t("todos", done, todos.length)}
        <progress max={todos.length} value={done} aria-label={t("todos", done, todos.length)} />
      </summary>
      <ul>
        {todos.map((todo) => (
          <li key={todo.id} class={todo.status}>
            <span dir="auto">{todo.content}</span> <span class="note">{named("todo_", todo.status)}</span>
          </li>
        ))}
      </ul>
    </details>
  );
}

/** Messages that the service has accepted and that wait for the active run. */
function Queue() {
  const { items, queuedRunIds, activeRunId } = conversation.value;
  const id = openId.value;
  if (id === undefined || activeRunId === undefined || queuedRunIds.length === 0) return null;
  return (
    <section class="queue" aria-label={t("queuedMessages")}>
      <h2>{t("queuedMessages")}</h2>
      <ul>
        {queuedRunIds.map((runId) => {
          const message = items.find((item) => item.kind === "user" && item.runId === runId);
          return (
            <li key={runId}>
              <span dir="auto">{message?.kind === "user" ? summaryOf(message.content) : runId}</span>
              <button type="button" onClick={() => void act(() => client.stop(id, runId))}>
                {t("removeQueued")}
              </button>
            </li>
          );
        })}
      </ul>
    </section>
  );
}

/** The last run was stopped: its message can be sent again. */
function Stopped() {
  const message = conversation.value.items.findLast((item) => item.kind === "user");
  if (outcome.value !== "cancelled" || message?.runId === undefined) return null;
  return (
    <div class="waiting">
      <span class="note">{t("stopped")}</span>
      <RetryButton runId={message.runId} />
    </div>
  );
}

/** Messages that the service has not accepted yet. */
function Outbox() {
  const mine = outbox.value.filter(({ sessionId }) => sessionId === openId.value);
  return (
    <>
      {mine.map(({ id, content, error }) => (
        <article key={id} class="user outgoing" aria-busy={error === undefined}>
          <Content content={typeof content === "string" ? [{ type: "text", text: content }] : (content as never)} />
          {error === undefined && (
            <p class="note late">
              {refusal.value === undefined ? t("sending") : t("sendingAgain", refusal.value)}
            </p>
          )}
          {error !== undefined && (
            <div class="row">
              <span class="error-text">{t("notSent", error)}</span>
              <button type="button" onClick={() => void repost(id)}>
                {t("retry")}
              </button>
              <button type="button" onClick={() => forget(id)}>
                {t("cancel")}
              </button>
            </div>
          )}
        </article>
      ))}
    </>
  );
}
