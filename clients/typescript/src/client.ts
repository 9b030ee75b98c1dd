/** The client. */

import { type EventsOptions, events } from "./events.js";
import { Http, type Options, type Query, type RequestInfo, uniqueId } from "./http.js";
import { type Conversation, fromMessages } from "./reduce.js";
import type { Approval, CreateFork, CreateMessage, CreateSession, DecideCall, HistoryItem } from "./types.js";
import type { Page, Run, Session, SessionChange, StreamEvent, ToolResult, UpdateSession, UploadedFile } from "./types.js";

/**
 * Options of a request that must take effect once. Use the same `key` again to repeat a request whose result
 * is unknown [default: a new key].
 */
export type SendOptions = { key?: string; signal?: AbortSignal };

/**
 * A client of the service. Every request that is safe to repeat is repeated after temporary failures. The
 * methods are bound: they can be passed on without the client.
 */
export class Twostep {
  private readonly http: Http;

  constructor(options: Options) { this.http = new Http(options); }

  /** Sends a request that has no method here. `path` is without `/v1`. Returns the body of the reply. */
  readonly request = <T>(path: string, request: RequestInfo = {}): Promise<T> => this.http.json<T>(path, request);

  readonly createSession = (settings: CreateSession = {}, options: SendOptions = {}) =>
    this.post<Session>("/sessions", settings, options);

  readonly session = (id: string) => this.request<Session>(`/sessions/${id}`);

  /** Lists sessions, newest first. `query` has the filters and the page. */
  readonly sessions = (query: Query = {}) => this.request<Page<Session>>("/sessions", { query });

  /** Yields the changes of the list of sessions. List the sessions whenever the connection opens: no change is missed. */
  readonly sessionChanges = (options: EventsOptions = {}) => events<SessionChange>(this.http, "/sessions/stream", options);

  readonly updateSession = (id: string, changes: UpdateSession) =>
    this.request<Session>(`/sessions/${id}`, { method: "PATCH", body: changes });

  /** Deletes a session. A session that does not exist is deleted already. */
  readonly deleteSession = (id: string, query: { forks?: "delete" } = {}) =>
    this.request<void>(`/sessions/${id}`, { method: "DELETE", query }).catch((error: { code?: string }) => {
      if (error.code !== "session_not_found") throw error;
    });

  /** Creates a session that shares the history up to a message, for example to edit that message. */
  readonly fork = (id: string, fork: CreateFork, options: SendOptions = {}) =>
    this.post<Session>(`/sessions/${id}/forks`, fork, options);

  /**
   * Posts a message. The run is returned as soon as the message is stored. The `id` of the message is also
   * the default of `key`, and the id of its item in the conversation.
   */
  readonly send = (id: string, message: string | CreateMessage, options: SendOptions = {}) => {
    const body = typeof message === "string" ? { content: message } : message;
    return this.post<Run>(`/sessions/${id}/messages`, body, { key: body.id ?? uniqueId(), ...options });
  };

  /** Posts the message of a failed or cancelled run again, as a new run. It must be the newest one. */
  readonly retry = (id: string, runId: string, options: SendOptions = {}) =>
    this.post<Run>(`/sessions/${id}/runs/${runId}/retry`, undefined, options);

  /** Uploads a file. Messages of the session refer to it by the source `{ type: "file", file_id }`. */
  readonly upload = (id: string, file: Blob & { name?: string }) =>
    this.request<UploadedFile>(`/sessions/${id}/files`, { method: "POST", query: { name: file.name }, body: file });

  readonly run = (id: string, runId: string) => this.request<Run>(`/sessions/${id}/runs/${runId}`);

  /** Lists the messages of the history with all their blocks. */
  readonly messages = (id: string, query: Query = {}) =>
    this.request<Page<HistoryItem>>(`/sessions/${id}/messages`, { query });

  /** The conversation before the first event of a session: of a fork the messages that it shares. */
  readonly history = async (id: string): Promise<Conversation> => {
    const last = (await this.session(id)).forked_from?.message_seq ?? 0;
    const items: HistoryItem[] = [];
    while (items.length < last) {
      const limit = Math.min(200, last - items.length);
      items.push(...(await this.messages(id, { view: "plain", after: items.length, limit })).data);
    }
    return fromMessages(items);
  };

  /** Stops one run, or the active run and the queued ones. */
  readonly stop = async (id: string, runId?: string): Promise<void> => {
    const path = runId === undefined ? `/sessions/${id}/cancel` : `/sessions/${id}/runs/${runId}/cancel`;
    await this.request(path, { method: "POST", isRepeatable: runId !== undefined });
  };

  /** Lists the calls that wait for a decision. */
  readonly approvals = async (id: string) => (await this.request<Page<Approval>>(`/sessions/${id}/approvals`)).data;

  /** Decides on a call. */
  readonly decide = (id: string, toolUseId: string, decision: DecideCall) =>
    this.request<Run>(`/sessions/${id}/approvals/${toolUseId}`, { method: "POST", body: decision });

  /** Allows a call. `input` replaces the input of the model; `remember` adds a rule for later calls. */
  readonly approve = (id: string, toolUseId: string, options: Partial<Pick<DecideCall, "input" | "remember">> = {}) =>
    this.decide(id, toolUseId, { decision: "allow", ...options });

  /** Denies a call. The model reads the message. */
  readonly deny = (id: string, toolUseId: string, message?: string) =>
    this.decide(id, toolUseId, { decision: "deny", ...(message !== undefined && { message }) });

  /** Submits results of tools that the client runs. */
  readonly answer = (id: string, results: ToolResult[]) =>
    this.request<Run>(`/sessions/${id}/tool_results`, { method: "POST", body: { results } });

  /** Yields the events of a session across all its runs and across lost connections. */
  readonly events = (id: string, options: EventsOptions = {}) =>
    events<StreamEvent>(this.http, `/sessions/${id}/events/stream`, options);

  /** Yields the events of one run until it settles or waits for the client. */
  readonly runEvents = (id: string, runId: string, options: EventsOptions = {}) =>
    events<StreamEvent>(this.http, `/sessions/${id}/runs/${runId}/stream`, options, true);

  private readonly post = <T>(path: string, body: unknown, { key = uniqueId(), signal }: SendOptions) =>
    this.request<T>(path, { method: "POST", body, headers: { "idempotency-key": key }, signal });
}
