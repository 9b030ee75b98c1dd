/** The sessions of the sub-agents of a session, below it. */

import { useSignal } from "@preact/signals";
import type { Session } from "@twostep/client";
import { useEffect } from "preact/hooks";
import { client } from "../service/api";
import { follow, hrefOf, openId } from "../state/route";
import { shownStatus, shownTitle } from "../state/shown";
import { conversation } from "../state/thread";
import { named, t } from "../text/text";

export function SubAgentList({ parent }: { parent: string }) {
  const found = useSignal<Session[]>([]);
  const count =
    openId.value === parent
      ? conversation.value.items.filter((item) => item.kind === "tool" && item.subAgent).length
      : 0;
  useEffect(() => {
    // Only an addition to the list: without it the page is complete.
    void client.sessions({ parent, limit: 100 }).then(
      (page) => (found.value = page.data),
      () => undefined,
    );
  }, [parent, count, conversation.value.status]);
  if (found.value.length === 0) return null;
  return (
    <ul class="nested" aria-label={t("subAgents")}>
      {found.value.map((one) => (
        <li key={one.id}>
          <a
            href={hrefOf(one.id)}
            class="session"
            aria-current={one.id === openId.value ? "page" : undefined}
            onClick={follow(one.id)}
          >
            <span class={`dot dot-${shownStatus(one)}`} aria-hidden="true" />
            <span class="session-title" dir="auto">
              {shownTitle(one) ?? t("subAgent")}
            </span>
            <span class="session-note">{named("", shownStatus(one))}</span>
          </a>
        </li>
      ))}
    </ul>
  );
}
