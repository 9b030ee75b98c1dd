/** The client. */

import { type EventsOptions, events } from "./events.js";
import { Http, type Options, uniqueId } from "./http.js";
import type {
  Approval, CreateFork, CreateMessage, CreateSession, DecideCall, HistoryItem, Page, Run, Session, StreamEvent,
  ToolResult, UpdateSession,
} from "./types.js";

/** What identifies a request, so that a repetition has no further effect. */
export interface SendOptions {
  /** Use the same key again to repeat a request whose result is unknown [default: a new key]. */
  key?: string;
  signal?: AbortSignal;
}

type Query = Record<string, string | number | boolean | undefined>;

/** A client of the service. Every request that is safe to repeat is repeated after temporary failures. */
export class Twostep {
  private readonly http: Http;

  constructor(options: Options) {
    this.http = new Http(options);
  }

  createSession(settings: CreateSession = {}, options: SendOptions = {}): Promise<Session> {
    return this.post("/sessions", settings, options);
  }

  session(id: string): Promise<Session> {
    return this.http.json(`/sessions/${id}`);
  }

  /** Lists sessions, newest first. `query` has the filters and the page. */
  sessions(query: Query = {}): Promise<Page<Session>> {
    return this.http.json("/sessions", { query });
  }

  updateSession(id: string, changes: UpdateSession): Promise<Session> {
    return this.http.json(`/sessions/${id}`, { method: "PATCH", body: changes });
  }

  /** Deletes a session. A session that does not exist is deleted already. */
  async deleteSession(id: string, query: { forks?: "delete" } = {}): Promise<void> {
    await this.http.json(`/sessions/${id}`, { method: "DELETE", query }).catch((error: { code?: string }) => {
      if (error.code !== "session_not_found") throw error;
    });
  }

  /** Creates a session that shares the history up to a message, for example to edit that message. */
  fork(id: string, fork: CreateFork, options: SendOptions = {}): Promise<Session> {
    return this.post(`/sessions/${id}/forks`, fork, options);
  }

  /** Posts a message. The run is returned as soon as the message is stored. */
  send(id: string, message: string | CreateMessage, options: SendOptions = {}): Promise<Run> {
    const body = typeof message === "string" ? { content: message } : message;
    return this.post(`/sessions/${id}/messages`, body, options);
  }

  run(id: string, runId: string): Promise<Run> {
    return this.http.json(`/sessions/${id}/runs/${runId}`);
  }

  /** Lists the messages of the history with all their blocks. */
  messages(id: string, query: Query = {}): Promise<Page<HistoryItem>> {
    return this.http.json(`/sessions/${id}/messages`, { query });
  }

  /** Stops one run, or the active run and the queued ones. */
  async stop(id: string, runId?: string): Promise<void> {
    const path = runId === undefined ? `/sessions/${id}/cancel` : `/sessions/${id}/runs/${runId}/cancel`;
    await this.http.json(path, { method: "POST", isRepeatable: runId !== undefined });
  }

  /** Lists the calls that wait for a decision. */
  async approvals(id: string): Promise<Approval[]> {
    const page = await this.http.json<Page<Approval>>(`/sessions/${id}/approvals`);
    return page.data;
  }

  /** Allows a call. `input` replaces the input of the model; `remember` adds a rule for later calls. */
  approve(id: string, toolUseId: string, options: Partial<Pick<DecideCall, "input" | "remember">> = {}): Promise<Run> {
    return this.decide(id, toolUseId, { decision: "allow", ...options });
  }

  /** Denies a call. The model reads the message. */
  deny(id: string, toolUseId: string, message?: string): Promise<Run> {
    return this.decide(id, toolUseId, message === undefined ? { decision: "deny" } : { decision: "deny", message });
  }

  private decide(id: string, toolUseId: string, decision: DecideCall): Promise<Run> {
    return this.http.json(`/sessions/${id}/approvals/${toolUseId}`, { method: "POST", body: decision });
  }

  /** Submits results of tools that the client runs. */
  answer(id: string, results: ToolResult[]): Promise<Run> {
    return this.http.json(`/sessions/${id}/tool_results`, { method: "POST", body: { results } });
  }

  /** Yields the events of a session across all its runs and across lost connections. */
  events(id: string, options: EventsOptions = {}): AsyncGenerator<StreamEvent, void, undefined> {
    return events(this.http, `/sessions/${id}/events/stream`, options);
  }

  /** Yields the events of one run until it settles or waits for the client. */
  runEvents(id: string, runId: string, options: EventsOptions = {}): AsyncGenerator<StreamEvent, void, undefined> {
    return events(this.http, `/sessions/${id}/runs/${runId}/stream`, { ...options, isRun: true });
  }

  private post<T>(path: string, body: unknown, { key = uniqueId(), signal }: SendOptions): Promise<T> {
    return this.http.json(path, { method: "POST", body, headers: { "idempotency-key": key }, signal });
  }
}
