/** One entry of a conversation. */

import type { TextItem } from "@twostep/client";
import { Markdown } from "../markdown/Markdown";
import { messageIdOf } from "../state/thread";
import { named, t } from "../text/text";
import type { Entry } from "./entries";
import { FeedbackBar } from "./FeedbackBar";
import { RetryButton } from "./RetryButton";
import { ToolCard } from "./ToolCard";
import { UserMessage } from "./UserMessage";

export function EntryView({ entry }: { entry: Entry }) {
  switch (entry.kind) {
    case "user":
      // The message that a retry repeats is shown already.
      return entry.retryOf === undefined ? <UserMessage item={entry} /> : <p class="note">{t("triedAgain")}</p>;
    case "text":
      return <AgentText item={entry} />;
    case "thinking":
      return entry.text === "" ? null : <Thinking item={entry} />;
    case "tool":
      return <ToolCard tool={entry} />;
    case "calls":
      return (
        <section class="calls" aria-label={t("calls", entry.calls.length)}>
          <p class="calls-title">{t("calls", entry.calls.length)}</p>
          {entry.calls.map((tool) => (
            <ToolCard key={tool.id} tool={tool} />
          ))}
        </section>
      );
    case "error":
      return (
        <div class="failure">
          <p>
            <strong>{named("error_", entry.type)}</strong>
          </p>
          <p dir="auto">{entry.message}</p>
          <RetryButton runId={entry.runId} />
        </div>
      );
    default:
      return null;
  }
}

function AgentText({ item }: { item: TextItem }) {
  const messageId = item.isPreview ? undefined : messageIdOf(item.id);
  return (
    <article class="agent" aria-label={t("agent")} aria-busy={item.isPreview}>
      <Markdown text={item.text} isOpen={item.isPreview} />
      {item.isInterrupted && <p class="note">{t("interrupted")}</p>}
      {messageId !== undefined && <FeedbackBar messageId={messageId} />}
    </article>
  );
}

function Thinking({ item }: { item: TextItem }) {
  return (
    <details class="thinking">
      <summary>
        {t("thinking")}
        {item.isPreview && <span class="pulse" aria-hidden="true" />}
      </summary>
      <Markdown text={item.text} isOpen={item.isPreview} />
    </details>
  );
}
