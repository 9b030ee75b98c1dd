/** The numbered events of a session, newest first, with a filter. */

import { useSignal } from "@preact/signals";
import type { Page } from "@twostep/client";
import { useEffect } from "preact/hooks";
import { type NumberedEvent, curl, read } from "../service/api";
import { copyText } from "../shell/copy";
import { act } from "../state/access";
import { conversation } from "../state/thread";
import { exactTime, t } from "../text/text";

const pageSize = 100;

export function EventsView({ sessionId }: { sessionId: string }) {
  const events = useSignal<NumberedEvent[]>([]);
  const hasMore = useSignal(false);
  const filter = useSignal("");
  const path = `/sessions/${sessionId}/events`;
  const newest = conversation.value.status === "idle" ? conversation.value.seq : 0;

  const load = async (after?: number) => {
    const page = await act(() => read<Page<NumberedEvent>>(path, { order: "desc", limit: pageSize, after }));
    if (page === undefined) return;
    events.value = after === undefined ? page.data : [...events.value, ...page.data];
    hasMore.value = page.has_more;
  };
  useEffect(() => void load(), [sessionId, newest]);

  const words = filter.value.toLowerCase().trim();
  const shown =
    words === "" ? events.value : events.value.filter((event) => JSON.stringify(event).toLowerCase().includes(words));
  const oldest = events.value.at(-1)?.seq;
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
      {shown.length === 0 && <p class="note">{t("nothing")}</p>}
      {shown.map((event) => (
        <EventRow key={event.seq} event={event} />
      ))}
      {hasMore.value && (
        <button type="button" class="more" onClick={() => void load(oldest)}>
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
        <time class="note" dateTime={event.created_at}>
          {exactTime(event.created_at)}
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
