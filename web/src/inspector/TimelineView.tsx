/** The timeline of a run: requests to the model, tools, waits, retries and takeovers. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { client } from "../service/api";
import { report } from "../state/access";
import { perFrame } from "../state/frames";
import { conversation } from "../state/thread";
import { milliseconds, t } from "../text/text";
import { type Span, reasonOf, withEvent } from "./spans";

interface Props {
  sessionId: string;
  runId: string;
}

export function TimelineView({ sessionId, runId }: Props) {
  const spans = useSignal<readonly Span[]>([]);
  const isLoaded = useSignal(false);
  const now = useSignal(Date.now());
  useEffect(() => {
    const abort = new AbortController();
    void follow(sessionId, runId, abort.signal, (found) => {
      spans.value = found;
      isLoaded.value = true;
    }).catch(report);
    const timer = setInterval(() => (now.value = Date.now()), 500);
    return () => {
      abort.abort();
      clearInterval(timer);
    };
  }, [sessionId, runId, conversation.value.status, conversation.value.stopReason]);

  if (spans.value.length === 0) return <p class="note">{t(isLoaded.value ? "nothing" : "loading")}</p>;
  const first = Math.min(...spans.value.map(({ start }) => start));
  const last = Math.max(...spans.value.map(({ start, end }) => Math.max(start, end ?? now.value)));
  const whole = Math.max(1, last - first);
  return (
    <table class="timeline">
      <thead>
        <tr>
          <th scope="col">{t("step")}</th>
          <th scope="col">{t("begin")}</th>
          <th scope="col">{t("duration")}</th>
        </tr>
      </thead>
      <tbody>
        {spans.value
          .toSorted((one, other) => one.start - other.start)
          .map((span) => {
            const length = (span.end ?? now.value) - span.start;
            const bar = {
              insetInlineStart: `${((span.start - first) / whole) * 100}%`,
              width: `${Math.max(0.5, (length / whole) * 100)}%`,
            };
            return (
              <tr key={span.id} class={`span-${span.kind}`}>
                <th scope="row">
                  {span.kind === "model" ? `${t("modelRequest")}: ${span.name}` : span.name}
                  {span.isError && <span class="error-text"> ✕ {t("failed")}</span>}
                  {span.prefixChange !== undefined && (
                    <span class="badge bad">{t("cacheBroke", reasonOf(span.prefixChange))}</span>
                  )}
                  <span class="track" aria-hidden="true">
                    <span class="bar" style={bar} />
                  </span>
                </th>
                <td>+{milliseconds(span.start - first)}</td>
                <td>{span.end === undefined ? "…" : milliseconds(length)}</td>
              </tr>
            );
          })}
      </tbody>
    </table>
  );
}

/** Reads the events of a run until it settles or waits for the client. */
async function follow(
  sessionId: string,
  runId: string,
  signal: AbortSignal,
  show: (spans: readonly Span[]) => void,
): Promise<void> {
  let spans: readonly Span[] = [];
  const render = perFrame(() => {
    if (!signal.aborted) show(spans);
  });
  for await (const event of client.runEvents(sessionId, runId, { signal, previews: false })) {
    if (!("seq" in event)) continue;
    spans = withEvent(spans, event);
    render();
  }
}
