/** The documents that the answer of the last run is based on. */

import { useSignal } from "@preact/signals";
import { type Run } from "@twostep/client";
import { useEffect } from "preact/hooks";
import { client } from "../service/api";
import { openId } from "../state/route";
import { conversation } from "../state/thread";
import { t } from "../text/text";

export function Sources() {
  const sources = useSignal<NonNullable<Run["sources"]>>([]);
  const { items, status } = conversation.value;
  const last = items.findLast((item) => item.kind === "tool" || item.kind === "user");
  const runId = status === "idle" && last?.kind === "tool" ? last.runId : undefined;
  const id = openId.value;
  useEffect(() => {
    sources.value = [];
    // Without them the answer is complete, too.
    if (id !== undefined && runId !== undefined)
      void client.run(id, runId).then(
        (run) => (sources.value = run.sources ?? []),
        () => undefined,
      );
  }, [id, runId]);
  if (sources.value.length === 0) return null;
  return (
    <details class="sources">
      <summary>
        {t("sources")} ({sources.value.length})
      </summary>
      <ul>
        {sources.value.map(({ title, url }, index) => (
          <li key={index} dir="auto">
            {url !== undefined && /^https?:/.test(url) ? (
              <a href={url} target="_blank" rel="noopener noreferrer nofollow">
                {title}
              </a>
            ) : (
              title
            )}
          </li>
        ))}
      </ul>
    </details>
  );
}
