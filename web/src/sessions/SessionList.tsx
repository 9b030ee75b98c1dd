/** The list of sessions with search, archive and pages. */

import { computed, useComputed } from "@preact/signals";
import type { Session } from "@twostep/client";
import type { VNode } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { follow, hrefOf, openId } from "../state/route";
import {
  type StatusFilter,
  hasMore,
  isListLoading,
  list,
  loadMore,
  mayList,
  search,
  showsArchived,
  statusFilter,
} from "../state/sessions";
import { shownStatus, shownTitle } from "../state/shown";
import { session } from "../state/thread";
import { exactTime, moment, named, t } from "../text/text";
import { SubAgentList } from "./SubAgentList";

export function SessionList() {
  if (!mayList.value) return null;
  return (
    <nav class="sessions" aria-label={t("sessions")}>
      <div class="row">
        <input
          type="search"
          id="search"
          aria-label={t("searchSessions")}
          placeholder={t("searchSessions")}
          dir="auto"
          value={search}
          maxLength={200}
          onInput={(event) => (search.value = event.currentTarget.value)}
        />
      </div>
      <div class="filters">
        <div class="segments" role="group" aria-label={t("listShown")}>
          {([false, true] as const).map((archived) => (
            <button
              key={String(archived)}
              type="button"
              aria-pressed={showsArchived.value === archived}
              onClick={() => (showsArchived.value = archived)}
            >
              {t(archived ? "archived" : "active")}
            </button>
          ))}
        </div>
        <select
          aria-label={t("statusShown")}
          value={statusFilter}
          onChange={(event) => (statusFilter.value = event.currentTarget.value as StatusFilter)}
        >
          {(["", "requires_action", "running", "queued"] as const).map((status) => (
            <option key={status} value={status}>
              {t(status === "" ? "anyStatus" : status)}
            </option>
          ))}
        </select>
      </div>
      <div class="session-scroll" tabIndex={-1}>
        <Rows />
        <More />
      </div>
    </nav>
  );
}

/** The rows of sessions: an unchanged one is not rendered again. */
const rows = new WeakMap<Session, VNode>();

function rowOf(session: Session): VNode {
  const known = rows.get(session) ?? <Row key={session.id} session={session} />;
  rows.set(session, known);
  return known;
}

function Rows() {
  if (list.value.length === 0) {
    const isFiltered = search.value.trim() !== "" || statusFilter.value !== "";
    const empty = t(isFiltered ? "noMatches" : "noSessions");
    return <p class="note">{isListLoading.value ? t("loading") : empty}</p>;
  }
  return <ul>{list.value.map(rowOf)}</ul>;
}

function Row({ session: one }: { session: Session }) {
  const isOpen = useComputed(() => one.id === openId.value).value;
  const isParent = useComputed(() => session.value?.parent?.session_id === one.id).value;
  const status = useMemo(() => computed(() => shownStatus(one)), [one]).value;
  const title = useMemo(() => computed(() => shownTitle(one)), [one]).value;
  return (
    <li>
      <a
        href={hrefOf(one.id)}
        class="session"
        aria-current={isOpen ? "page" : undefined}
        onClick={follow(one.id)}
        data-id={one.id}
      >
        <span class={`dot dot-${status}`} aria-hidden="true" />
        <span class="session-title" dir="auto">
          {title ?? t("untitled")}
        </span>
        <span class="session-note">
          {named("", status)} ·{" "}
          <time dateTime={one.updated_at} title={exactTime(one.updated_at)}>
            {moment(one.updated_at)}
          </time>
        </span>
      </a>
      {(isOpen || isParent) && <SubAgentList parent={one.id} />}
    </li>
  );
}

/** Loads the next page when it becomes visible, or on request. */
function More() {
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    const observed = button.current;
    if (observed === null) return;
    const observer = new IntersectionObserver(
      ([entry]) => {
        if (entry?.isIntersecting) void loadMore();
      },
      { rootMargin: "400px" },
    );
    observer.observe(observed);
    return () => observer.disconnect();
  }, [hasMore.value, list.value.length]);
  if (!hasMore.value) return null;
  return (
    <button ref={button} type="button" class="more" onClick={() => void loadMore()}>
      {t("loadMore")}
    </button>
  );
}
