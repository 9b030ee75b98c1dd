/** The inspector of the open session: timeline, usage, requests to the model, raw events. */

import { useSignal } from "@preact/signals";
import type { Page, Run } from "@twostep/client";
import { useEffect } from "preact/hooks";
import { read } from "../service/api";
import { copyText } from "../shell/copy";
import { report } from "../state/access";
import { openId } from "../state/route";
import { conversation } from "../state/thread";
import { moment, named, t } from "../text/text";
import { EventsView } from "./EventsView";
import { RequestsView } from "./RequestsView";
import { TimelineView } from "./TimelineView";
import { UsageView } from "./UsageView";

const tabs = ["timeline", "usage", "requests", "events"] as const;
type Tab = (typeof tabs)[number];

export function Inspector({ close }: { close: () => void }) {
  const tab = useSignal<Tab>("timeline");
  const runs = useSignal<Run[]>([]);
  const chosen = useSignal<string | undefined>(undefined);
  const id = openId.value ?? "";
  // A short run can settle within one frame: then only the reason changes.
  const { status, activeRunId, stopReason } = conversation.value;
  useEffect(() => {
    chosen.value = undefined;
  }, [id]);
  useEffect(() => {
    let isCurrent = true;
    const page = read<Page<Run>>(`/sessions/${id}/runs`, { order: "desc", limit: 100 });
    page.then((found) => isCurrent && (runs.value = found.data), report);
    return () => {
      isCurrent = false;
    };
  }, [id, status, activeRunId, stopReason]);

  const run = runs.value.find((one) => one.id === chosen.value) ?? runs.value[0];
  return (
    <section class="inspector" aria-label={t("inspect")}>
      <header class="row">
        <h1>{t("inspect")}</h1>
        <button type="button" class="quiet" aria-label={t("close")} onClick={close}>
          ✕
        </button>
      </header>
      <div class="segments" role="group" aria-label={t("inspect")}>
        {tabs.map((one) => (
          <button key={one} type="button" aria-pressed={tab.value === one} onClick={() => (tab.value = one)}>
            {t(one)}
          </button>
        ))}
      </div>
      {tab.value !== "events" && runs.value.length > 0 && (
        <label>
          {t("run")}
          <select value={run?.id} onChange={(event) => (chosen.value = event.currentTarget.value)}>
            {runs.value.map((one, index) => (
              <option key={one.id} value={one.id}>
                {t("runOf", runs.value.length - index, named("", one.status))} · {moment(one.created_at)}
              </option>
            ))}
          </select>
        </label>
      )}
      <Id id={tab.value === "events" ? id : (run?.id ?? id)} />
      <div class="inspector-body">
        {tab.value === "events" ? (
          <EventsView key={id} sessionId={id} />
        ) : run === undefined ? (
          <p class="note">{t("nothing")}</p>
        ) : tab.value === "timeline" ? (
          <TimelineView key={run.id} sessionId={id} runId={run.id} />
        ) : tab.value === "usage" ? (
          <UsageView key={run.id} sessionId={id} run={run} />
        ) : (
          <RequestsView
            key={`${run.id} ${run.model_requests}`}
            sessionId={id}
            runId={run.id}
            earlierRunId={runs.value[runs.value.indexOf(run) + 1]?.id}
          />
        )}
      </div>
    </section>
  );
}

/** The id of the run or the session, for the log and the API. */
function Id({ id }: { id: string }) {
  return (
    <p class="row id">
      <code>{id}</code>
      <button type="button" class="quiet" onClick={() => void copyText(id)}>
        {t("copyId")}
      </button>
    </p>
  );
}
