/** The requests of a run to the model: usage, prefix hashes, cache breaks, exact body. */

import { useSignal } from "@preact/signals";
import { DiffView } from "../approvals/DiffView";
import { useEffect } from "preact/hooks";
import { type ModelRequest, type NumberedEvent, curl, read, readAll } from "../service/api";
import { copyText } from "../shell/copy";
import { act, report } from "../state/access";
import { conversation } from "../state/thread";
import { dollars, milliseconds, number, t } from "../text/text";
import { changesBetween } from "./bodies";
import { reasonOf } from "./spans";

interface Props {
  sessionId: string;
  runId: string;
  /** The run before, whose last request precedes the first one. */
  earlierRunId: string | undefined;
}

type End = Extract<NumberedEvent, { type: "span.model_request_end" }>;

export function RequestsView({ sessionId, runId, earlierRunId }: Props) {
  const requests = useSignal<ModelRequest[] | undefined>(undefined);
  const ends = useSignal<End[]>([]);
  const pathOf = (run: string) => `/sessions/${sessionId}/runs/${run}/requests`;
  const path = pathOf(runId);
  useEffect(() => {
    void readAll<ModelRequest>(path).then((found) => (requests.value = found), report);
    const types = "span.model_request_end";
    const events = readAll<NumberedEvent>(`/sessions/${sessionId}/events`, { types });
    void events.then((found) => (ends.value = found.filter((event) => event.run_id === runId) as End[]), report);
  }, [path, conversation.value.usage]);
  const shown = requests.value ?? [];
  if (shown.length === 0) return <p class="note">{t(requests.value === undefined ? "loading" : "nothing")}</p>;
  return (
    <>
      {shown.map((request) => (
        <RequestView
          key={request.n}
          request={request}
          end={endOf(request, ends.value)}
          path={`${path}/${request.n}`}
          earlier={() => pathBefore(request.n, path, earlierRunId === undefined ? undefined : pathOf(earlierRunId))}
        />
      ))}
    </>
  );
}

/** The path of the request that was sent before the request `n` of a run; undefined if there is none. */
async function pathBefore(n: number, path: string, earlier: string | undefined): Promise<string | undefined> {
  if (n > 1) return `${path}/${n - 1}`;
  if (earlier === undefined) return undefined;
  const last = (await readAll<ModelRequest>(earlier)).at(-1);
  return last === undefined ? undefined : `${earlier}/${last.n}`;
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
  /** The path of the request before. */
  earlier: () => Promise<string | undefined>;
}

function RequestView({ request, end, path, earlier }: RequestProps) {
  const body = useSignal<string | undefined>(undefined);
  const changes = useSignal<Changes | undefined>(undefined);
  const { usage, prefix } = request;
  const input =
    (usage.input_tokens ?? 0) + (usage.cache_creation_input_tokens ?? 0) + (usage.cache_read_input_tokens ?? 0);
  const change = end?.prefix_changed;
  const load = async () => {
    const whole = await act(() => read<ModelRequest>(path));
    if (whole !== undefined) body.value = whole.body == null ? t("noBody") : JSON.stringify(whole.body, null, 2);
  };
  const compare = async () => {
    const found = await act(async () => {
      const before = await earlier();
      if (before === undefined) return { note: t("noEarlier") };
      const [one, other] = await Promise.all([before, path].map((each) => read<ModelRequest>(each)));
      return changesOf(one, other);
    });
    if (found !== undefined) changes.value = found;
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
        {change !== undefined && <span class="badge bad">{t("cacheBroke", reasonOf(change))}</span>}
      </summary>
      {request.error !== undefined && <p class="note error-text">{request.error.message}</p>}
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
      {(request.attempts.length > 1 || request.error === undefined) && <Attempts attempts={request.attempts} />}
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
        <button type="button" onClick={() => void compare()}>
          {t("compare")}
        </button>
      </div>
      {changes.value?.note !== undefined && (
        <p class="note" role="status">
          {changes.value.note}
        </p>
      )}
      {changes.value?.patch !== undefined && (
        <>
          <p class="label">{t("compared")}</p>
          <DiffView patch={changes.value.patch} />
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

/** The failed HTTP requests, with the messages of the model's server. */
function Attempts({ attempts }: Pick<ModelRequest, "attempts">) {
  if (attempts.every(({ error }) => error === undefined)) return null;
  return (
    <>
      <p class="label">{t("tries")}</p>
      <ol class="tries">
        {attempts.map(({ started_at: at, status, error, message }) => (
          <li key={at}>
            {[status, error ?? t("tool_done"), message].filter((part) => part !== undefined).join(" · ")}
          </li>
        ))}
      </ol>
    </>
  );
}

interface Changes {
  note?: string;
  patch?: string;
}

function changesOf(one: ModelRequest | undefined, other: ModelRequest | undefined): Changes {
  if (one?.body == null || other?.body == null) return { note: t("noBody") };
  const patch = changesBetween(one.body, other.body);
  if (patch === undefined) return { note: t("tooDifferent") };
  return patch === "" ? { note: t("noDifference") } : { patch };
}
