/** The numbered events of a session, newest first, with a filter. */

import { useSignal } from "@preact/signals";
import type { Page } from "@twostep/client";
import { useEffect, useRef } from "preact/hooks";
import { type NumberedEvent, curl, read } from "../service/api";
import { copyText } from "../shell/copy";
import { act, report } from "../state/access";
import { conversation } from "../state/thread";
import { clock, exactTime, t } from "../text/text";

const pageSize = 100;
/** New events are read at most once in this many milliseconds. */
const pause = 500;

export function EventsView({ sessionId }: { sessionId: string }) {
  const events = useSignal<NumberedEvent[]>([]);
  const hasMore = useSignal(false);
  const isLoaded = useSignal(false);
  const filter = useSignal("");
  const path = `/sessions/${sessionId}/events`;
  const newest = conversation.value.seq;
  const isReading = useRef(false);
  const planned = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);

  const page = (after?: number) => read<Page<NumberedEvent>>(path, { order: "desc", limit: pageSize, after });
  /** Reads the newest events, and keeps the older ones that are shown. */
  const refresh = async () => {
    const found = await page();
    const known = events.value[0]?.seq ?? 0;
    const isConnected = (found.data.at(-1)?.seq ?? 0) <= known + 1;
    isLoaded.value = true;
    if (!isConnected || known === 0) hasMore.value = found.has_more;
    events.value = isConnected ? [...found.data.filter(({ seq }) => seq > known), ...events.value] : found.data;
  };
  const loadOlder = async () => {
    if (isReading.current) return;
    isReading.current = true;
    const found = await act(() => page(events.value.at(-1)?.seq));
    isReading.current = false;
    if (found === undefined) return;
    const oldest = events.value.at(-1)?.seq ?? Number.POSITIVE_INFINITY;
    events.value = [...events.value, ...found.data.filter(({ seq }) => seq < oldest)];
    hasMore.value = found.has_more;
  };
  useEffect(() => {
    if (planned.current !== undefined) return;
    const renew = () => {
      planned.current = undefined;
      void refresh().catch(report);
    };
    planned.current = setTimeout(renew, events.value.length === 0 ? 0 : pause);
  }, [newest]);
  useEffect(() => () => clearTimeout(planned.current), []);

  const words = filter.value.toLowerCase().trim();
  const shown =
    words === "" ? events.value : events.value.filter((event) => JSON.stringify(event).toLowerCase().includes(words));
  // A filter searches all events of the session, until a page of them is found.
  const isSearching = words !== "" && hasMore.value && shown.length < pageSize;
  useEffect(() => {
    if (isSearching) void loadOlder();
  }, [isSearching, events.value.length]);
  return (
    <>
      <div class="row">
        <input
          type="search"
          aria-label={t("filter")}
          placeholder={t("filter")}
          value={filter}
          onInput={(event) => (filter.value = event.currentTarget.value)}
        />
        <button type="button" onClick={() => void copyText(curl(path))}>
          {t("curl")}
        </button>
      </div>
      {shown.length === 0 && <p class="note">{t(isSearching || !isLoaded.value ? "loading" : words === "" ? "nothing" : "noEvents")}</p>}
      {shown.map((event) => (
        <EventRow key={event.seq} event={event} />
      ))}
      {hasMore.value && (
        <button type="button" class="more" onClick={() => void loadOlder()}>
          {t("loadMore")}
        </button>
      )}
    </>
  );
}

function EventRow({ event }: { event: NumberedEvent }) {
  const isOpen = useSignal(false);
  return (
    <details class="event" onToggle={(toggled) => (isOpen.value = toggled.currentTarget.open)}>
      <summary>
        <span class="seq">{event.seq}</span> <code>{event.type}</code>{" "}
        <time class="note" dateTime={event.created_at} title={exactTime(event.created_at)}>
          {clock(event.created_at)}
        </time>
      </summary>
      {isOpen.value && (
        <pre tabIndex={0} dir="ltr">
          {JSON.stringify(event, null, 2)}
        </pre>
      )}
    </details>
  );
}
