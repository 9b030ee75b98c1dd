/** The error of the last action, and the state of a lost connection. */

import { notice } from "../state/access";
import { openId } from "../state/route";
import { connection, conversation } from "../state/thread";
import { t } from "../text/text";

export function Notices() {
  const { state, failures } = connection.value;
  const isLost = openId.value !== undefined && failures > 0 && state !== "open";
  return (
    <div class="notices">
      {isLost && (
        <p class="lost" role="status">
          {t("reconnecting", failures)}
        </p>
      )}
      {conversation.value.isDeleted && (
        <p class="lost" role="status">
          {t("deleted")}
        </p>
      )}
      {notice.value !== undefined && (
        <div class="notice" role="alert">
          <p dir="auto">
            {notice.value.text}
            {notice.value.requestId !== undefined && (
              <span class="note"> {t("requestId", notice.value.requestId)}</span>
            )}
          </p>
          <button type="button" class="quiet" aria-label={t("dismiss")} onClick={() => (notice.value = undefined)}>
            ✕
          </button>
        </div>
      )}
    </div>
  );
}
