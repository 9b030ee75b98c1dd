/** Sends the message of a failed or stopped run again. */

import { client } from "../service/api";
import { act } from "../state/access";
import { openId } from "../state/route";
import { conversation } from "../state/thread";
import { t } from "../text/text";

export function RetryButton({ runId }: { runId: string | undefined }) {
  const { items, status } = conversation.value;
  const message = items.findLast((item) => item.kind === "user" && item.runId === runId);
  const isLast = items.findLast((item) => item.kind === "user") === message;
  if (message?.kind !== "user" || !isLast || status !== "idle") return null;
  const id = openId.value;
  const retry = () => {
    if (id !== undefined && runId !== undefined) void act(() => client.retry(id, runId));
  };
  return (
    <button type="button" onClick={retry}>
      {t("retry")}
    </button>
  );
}
