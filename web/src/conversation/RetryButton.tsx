/** Sends the message of a failed run again. */

import { post } from "../state/outbox";
import { openId } from "../state/route";
import { conversation } from "../state/thread";
import { t } from "../text/text";
import { textOf } from "./UserMessage";

export function RetryButton({ runId }: { runId: string | undefined }) {
  const { items, status } = conversation.value;
  const message = items.findLast((item) => item.kind === "user" && item.runId === runId);
  const isLast = items.findLast((item) => item.kind === "user") === message;
  if (message?.kind !== "user" || !isLast || status !== "idle") return null;
  const retry = () => {
    if (openId.value !== undefined) void post(openId.value, textOf(message.content));
  };
  return (
    <button type="button" onClick={retry}>
      {t("retry")}
    </button>
  );
}
