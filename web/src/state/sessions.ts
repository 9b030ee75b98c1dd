/** The list of sessions: pages of the newest, a search, and their changes. */

import { batch, effect, signal } from "@preact/signals";
import { type Page, ProblemError, type Session } from "@twostep/client";
import { client } from "../service/api";
import { keyVersion, report } from "./access";

export const list = signal<Session[]>([]);
export const search = signal("");
export const showsArchived = signal(false);
/** The only status that is shown; empty for all. */
export type StatusFilter = "" | "queued" | "running" | "requires_action";
export const statusFilter = signal<StatusFilter>("");
export const hasMore = signal(false);
export const isListLoading = signal(true);
/** False with a token of one session, which may not list sessions. */
export const mayList = signal(true);

/** The ids of sessions whose sub-agents wait for the user. The runs of these sessions are running. */
export const waitingParents = signal<ReadonlySet<string>>(new Set());

/** The number of running sessions whose sub-agents are read. */
export const maxParents = 10;
const pageSize = 50;
let cursor: string | undefined;
let generation = 0;

function query(after?: string) {
  const q = search.value.trim();
  const status = statusFilter.value;
  const archived = showsArchived.value ? "true" : "false";
  return { limit: pageSize, archived, ...(q && { q }), ...(status && { status }), after };
}

const idPattern = /^ses_[0-9a-f]{32}$/;

/** Reads a page. The id of a session finds this session, also that of a sub-agent. */
async function read(after?: string): Promise<Page<Session>> {
  const id = search.value.trim();
  if (!idPattern.test(id)) {
    const page = await client.sessions(query(after));
    const showsWaiting = statusFilter.peek() === "requires_action" && after === undefined;
    return showsWaiting ? { ...page, data: [...(await parents()), ...page.data] } : page;
  }
  const found = await client.session(id).catch((error: unknown) => {
    if (error instanceof ProblemError && error.status === 404) return undefined;
    throw error;
  });
  return { data: found === undefined ? [] : [found], has_more: false };
}

/** The ids of these sessions whose sub-agents wait for the user. */
export async function waitingAmong(ids: string[]): Promise<string[]> {
  const found = ids.map(async (parent) => {
    const page = await client.sessions({ parent, status: "requires_action", limit: 1 });
    return page.data.length > 0 ? [parent] : [];
  });
  return (await Promise.all(found)).flat();
}

/** The sessions whose sub-agents wait for the user. The service finds only sessions that wait themselves. */
async function parents(): Promise<Session[]> {
  const { data } = await client.sessions({ ...query(), status: "running", limit: maxParents });
  waitingParents.value = new Set(await waitingAmong(data.map(({ id }) => id)));
  return data.filter(({ id }) => waitingParents.peek().has(id));
}

/** Reads the first page again and keeps the sessions of later pages. */
export async function refresh(): Promise<void> {
  const mine = generation;
  try {
    const page = await read();
    if (mine !== generation) return;
    const fresh = new Set(page.data.map(({ id }) => id));
    const oldest = page.data.at(-1)?.created_at ?? "";
    const isFirst = isListLoading.peek();
    // A session of this page that is missing now was deleted, archived or renamed out of the search.
    const later = isFirst ? [] : list.peek().filter((one) => !fresh.has(one.id) && one.created_at < oldest);
    const known = new Map(list.peek().map((one) => [one.id, one]));
    const data = page.data.map((one) => {
      const before = known.get(one.id);
      return before !== undefined && isSame(before, one) ? before : one;
    });
    batch(() => {
      list.value = page.has_more ? [...data, ...later] : data;
      if (isFirst || later.length === 0) {
        cursor = page.next_cursor ?? undefined;
        hasMore.value = page.has_more;
      }
      isListLoading.value = false;
      mayList.value = true;
    });
  } catch (error) {
    if (mine !== generation) return;
    if ((error as { status?: number }).status === 403) {
      mayList.value = false;
      isListLoading.value = false;
    } else if ((error as { status?: number }).status === 401) report(error);
  }
}

/** Every change of a session has an event or a new time: an unchanged one stays the same object. */
function isSame(before: Session, now: Session): boolean {
  return before.last_seq === now.last_seq && before.updated_at === now.updated_at;
}

let isReading = false;

/** Appends the next page. */
export async function loadMore(): Promise<void> {
  if (isReading || !hasMore.value || cursor === undefined) return;
  isReading = true;
  const mine = generation;
  try {
    const page = await read(cursor);
    if (mine !== generation) return;
    const known = new Set(list.value.map(({ id }) => id));
    batch(() => {
      list.value = [...list.value, ...page.data.filter(({ id }) => !known.has(id))];
      cursor = page.next_cursor ?? undefined;
      hasMore.value = page.has_more && cursor !== undefined;
    });
  } catch (error) {
    report(error);
  } finally {
    isReading = false;
  }
}

/** Puts a changed session in its place, or a new one first. */
export function put(session: Session): void {
  const isListed = list.value.some(({ id }) => id === session.id);
  if (isListed) list.value = list.value.map((one) => (one.id === session.id ? session : one));
  else if (session.parent === undefined) list.value = [session, ...list.value];
}

/** Reports whether the filter for the status shows a session. */
export function isShown(session: Session): boolean {
  const status = waitingParents.value.has(session.id) ? "requires_action" : listedStatus(session);
  return statusFilter.value === "" || status === statusFilter.value;
}

export function drop(id: string): void {
  list.value = list.value.filter((one) => one.id !== id);
}

/** The key of the text for the status of a listed session. */
export function listedStatus(session: Session): string {
  const reason = session.stop_reason?.type;
  if (session.status !== "idle") return session.status;
  if (reason === "requires_action") return "requires_action";
  if (reason === undefined) return "idle";
  if (reason === "cancelled") return "cancelled";
  const failures = ["retries_exhausted", "error", "budget_exceeded", "refusal"];
  return failures.includes(reason) ? "failed" : "done";
}

let pause: ReturnType<typeof setTimeout> | undefined;

effect(() => {
  void [search.value, showsArchived.value, statusFilter.value, keyVersion.value];
  generation++;
  isListLoading.value = true;
  clearTimeout(pause);
  pause = setTimeout(() => void refresh(), search.peek() === "" ? 0 : 250);
});
