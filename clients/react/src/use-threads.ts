/** The list of sessions. */

import type { CreateSession, Query, Session, SessionChange } from "@twostep/client";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { useClient } from "./context.js";
import { followWhileVisible } from "./list-stream.js";

export interface ThreadsOptions {
  /** Filters of `GET /v1/sessions`, for example `archived`. Sessions of sub-agents are left out. */
  query?: Query;
  /** The time between two reads of the list, in milliseconds, if the stream of the list is refused [default: 5000]. */
  interval?: number;
}

export interface UseThreads {
  /** The sessions, newest first. */
  threads: Session[];
  /** True until the list has been read once. */
  isLoading: boolean;
  /** True if there are older sessions: `loadMore` adds them. */
  hasMore: boolean;
  /** The failure of the last read. Reads continue. */
  error: unknown;
  loadMore(): void;
  refresh(): Promise<void>;
  create(settings?: CreateSession): Promise<Session>;
  rename(id: string, title: string): Promise<void>;
  archive(id: string): Promise<void>;
  unarchive(id: string): Promise<void>;
  /** Deletes a session, with its forks. */
  remove(id: string): Promise<void>;
}

type State = Pick<UseThreads, "threads" | "isLoading" | "hasMore" | "error">;

/** Lists sessions, and keeps the list up to date while the page is visible. */
export function useThreads({ query, interval = 5000 }: ThreadsOptions = {}): UseThreads {
  const client = useClient();
  const [state, setState] = useState<State>({ threads: [], isLoading: true, hasMore: false, error: undefined });
  const [limit, setLimit] = useState(50);
  const filters = JSON.stringify(query ?? {});
  const reads = useRef(0);
  const refresh = useCallback(async () => {
    const number = ++reads.current;
    const next = await readThreads().catch((error: unknown) => ({ error }));
    // A later read has begun: its result counts.
    if (number === reads.current) setState((before) => ({ ...before, isLoading: false, ...next }));

    async function readThreads(): Promise<Partial<State>> {
      const threads: Session[] = [];
      for (let after: string | undefined; ; ) {
        const page = await client.sessions({ ...(JSON.parse(filters) as Query), limit: Math.min(limit - threads.length, 200), after });
        threads.push(...page.data);
        after = page.next_cursor ?? undefined;
        if (!page.has_more || threads.length >= limit) return { threads, hasMore: page.has_more, error: undefined };
      }
    }
  }, [client, filters, limit]);
  const apply = useCallback((change: SessionChange) => {
    setState((before) => ({ ...before, threads: applied(before.threads, change) }));
    // The session may have entered or left the list.
    return filters !== "{}" || change.changes.some((kind) => MOVES.includes(kind));
  }, [filters]);
  useEffect(() => {
    const end = followWhileVisible(client, { refresh, apply, interval });
    return () => {
      reads.current++;
      end();
    };
  }, [client, refresh, apply, interval]);
  const actions = useMemo(() => {
    const then = async <T>(request: Promise<T>): Promise<T> => {
      const result = await request;
      await refresh();
      return result;
    };
    const change = async (id: string, changes: { title?: string; archived?: boolean }) => {
      await then(client.updateSession(id, changes));
    };
    return {
      refresh,
      loadMore: () => setLimit((before) => before + 50),
      create: (settings: CreateSession = {}) => then(client.createSession(settings)),
      rename: (id: string, title: string) => change(id, { title }),
      archive: (id: string) => change(id, { archived: true }),
      unarchive: (id: string) => change(id, { archived: false }),
      remove: (id: string) => then(client.deleteSession(id, { forks: "delete" })),
    };
  }, [client, refresh]);
  return { ...state, ...actions };
}

/** Changes after which a session may enter or leave a list without filters. */
const MOVES = ["created", "archived", "restored", "deleted"];

function applied(threads: Session[], { session_id, session, changes }: SessionChange): Session[] {
  if (changes.includes("deleted")) return threads.filter(({ id }) => id !== session_id);
  return threads.map((thread) => (thread.id === session_id && session !== undefined ? session : thread));
}
