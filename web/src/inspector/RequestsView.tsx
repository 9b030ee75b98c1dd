/** The requests of a run to the model: usage, prefix hashes, cache breaks, exact body. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { type ModelRequest, type NumberedEvent, curl, read, readAll } from "../service/api";
import { copyText } from "../shell/copy";
import { act, report } from "../state/access";
import { conversation } from "../state/thread";
import { dollars, milliseconds, number, t } from "../text/text";

interface Props {
  sessionId: string;
  runId: string;
}

type End = Extract<NumberedEvent, { type: "span.model_request_end" }>;

export function RequestsView({ sessionId, runId }: Props) {
  const requests = useSignal<ModelRequest[]>([]);
  const ends = useSignal<End[]>([]);
  const path = `/sessions/${sessionId}/runs/${runId}/requests`;
  useEffect(() => {
    void readAll<ModelRequest>(path).then((found) => (requests.value = found), report);
    const types = "span.model_request_end";
    const events = readAll<NumberedEvent>(`/sessions/${sessionId}/events`, { types });
    void events.then((found) => (ends.value = found.filter((event) => event.run_id === runId) as End[]), report);
  }, [path, conversation.value.usage]);
  if (requests.value.length === 0) return <p class="note">{t("nothing")}</p>;
  return (
    <>
      {requests.value.map((request) => (
        <RequestView key={request.n} request={request} end={endOf(request, ends.value)} path={`${path}/${request.n}`} />
      ))}
    </>
  );
}

/** The event of a request. It has no number: it is the one with the same counts that is nearest in time. */
function endOf({ usage, ended_at: time }: ModelRequest, ends: End[]): End | undefined {
  const distance = (end: End) => Math.abs(Date.parse(end.created_at) - Date.parse(time));
  const hasSameCounts = ({ model_usage: used }: End) =>
    used.input_tokens === usage.input_tokens && used.output_tokens === usage.output_tokens;
  return ends.filter(hasSameCounts).toSorted((one, other) => distance(one) - distance(other))[0];
}

interface RequestProps {
  request: ModelRequest;
  end: End | undefined;
  path: string;
}

function RequestView({ request, end, path }: RequestProps) {
  const body = useSignal<string | undefined>(undefined);
  const { usage, prefix } = request;
  const input =
    (usage.input_tokens ?? 0) + (usage.cache_creation_input_tokens ?? 0) + (usage.cache_read_input_tokens ?? 0);
  const change = end?.prefix_changed;
  const load = async () => {
    const whole = await act(() => read<ModelRequest>(path));
    if (whole !== undefined) body.value = whole.body == null ? t("noBody") : JSON.stringify(whole.body, null, 2);
  };
  return (
    <details
      class="request"
      onToggle={(event) => {
        if (event.currentTarget.open && body.value === undefined) void load();
      }}
    >
      <summary>
        <strong>{t("request", request.n)}</strong> {request.model} · {milliseconds(request.duration_ms)} ·{" "}
        {number(input)} → {number(usage.output_tokens ?? 0)} {t("tokens")}
        {request.cost !== undefined && ` · ${dollars(request.cost)}`}
        {request.error !== undefined && <span class="error-text"> ✕ {request.error.type}</span>}
        {change !== undefined && <span class="badge bad">{t("cacheBroke", reason(change))}</span>}
      </summary>
      {request.error !== undefined && <p class="error-text">{request.error.message}</p>}
      <dl class="facts">
        <div>
          <dt>{t("uncached")}</dt>
          <dd>{number(usage.input_tokens ?? 0)}</dd>
        </div>
        <div>
          <dt>{t("cacheWrite")}</dt>
          <dd>{number(usage.cache_creation_input_tokens ?? 0)}</dd>
        </div>
        <div>
          <dt>{t("cacheRead")}</dt>
          <dd>{number(usage.cache_read_input_tokens ?? 0)}</dd>
        </div>
        <div>
          <dt>{t("outputTokens")}</dt>
          <dd>{number(usage.output_tokens ?? 0)}</dd>
        </div>
      </dl>
      {request.attempts.length > 1 && (
        <p class="note">{request.attempts.map(({ status, error }) => error ?? status ?? "–").join(", ")}</p>
      )}
      {prefix !== undefined && (
        <>
          <p class="label">{t("hashes")}</p>
          <dl class="hashes">
            {(["tools", "system", "messages"] as const).map((part) => (
              <div key={part}>
                <dt>{part}</dt>
                <dd>
                  <code>{String(prefix[part]).slice(0, 16)}</code>
                </dd>
              </div>
            ))}
          </dl>
        </>
      )}
      <div class="row">
        <p class="label">{t("body")}</p>
        <button type="button" onClick={() => void copyText(curl(path))}>
          {t("curl")}
        </button>
        {body.value !== undefined && (
          <button type="button" onClick={() => void copyText(body.value ?? "")}>
            {t("copy")}
          </button>
        )}
      </div>
      <pre tabIndex={0} dir="ltr">
        {body.value ?? t("loading")}
      </pre>
    </details>
  );
}

function reason(change: NonNullable<End["prefix_changed"]>): string {
  if (change.level === "messages") return t("level_messages", change.index);
  return t(change.level === "tools" ? "level_tools" : "level_system");
}
