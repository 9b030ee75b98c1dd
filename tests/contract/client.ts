// An example client that uses the generated types. The type check fails if a member that it uses is
// removed or changes its type. The client also runs against the service.

import assert from "node:assert/strict";
import { appendFileSync } from "node:fs";
import createClient from "openapi-fetch";
import type { components, paths } from "./generated/schema.js";

type Schemas = components["schemas"];
type Problem = Schemas["Problem"];
type Streamed = Schemas["Streamed"];
type Session = Schemas["SessionResource"];
type Run = Schemas["RunResource"];

const baseUrl = process.env.TWOSTEP_URL ?? "http://127.0.0.1:8080";
const headers = { authorization: `Bearer ${process.env.TWOSTEP_KEY ?? ""}` };
const api = createClient<paths>({ baseUrl, headers });

// Keep error responses, which are searched for secrets.
const seen = process.env.TWOSTEP_TEST_SEEN;
if (seen !== undefined) {
  api.use({
    async onResponse({ response }) {
      if (!response.ok) appendFileSync(`${seen}/client.answers`, await response.clone().text());
    },
  });
}

class Refused extends Error {
  constructor(readonly problem: Problem) {
    super(`${problem.code}: ${problem.detail} (${problem.request_id})`);
  }
}

/** Returns the body of a successful response; throws a problem. */
function success<T>(answer: { data?: T; error?: Problem }): T {
  if (answer.error !== undefined) throw new Refused(answer.error);
  assert(answer.data !== undefined);
  return answer.data;
}

async function createSession(title: string): Promise<Session> {
  const body = { title, metadata: { from: "client.ts" }, tools: ["read_file", "write_file", "get_time"] };
  return success(await api.POST("/v1/sessions", { body }));
}

/** Posts a text and waits until its run settles or needs an action. */
async function ask(session_id: string, content: string, key: string): Promise<Run> {
  const header = { Prefer: "wait=30", "Idempotency-Key": key };
  const posted = await api.POST("/v1/sessions/{session_id}/messages", {
    params: { path: { session_id }, header },
    body: { content, on_busy: "queue", limits: { rounds: 5 } },
  });
  let run = success(posted) as Run;
  while (run.status === "queued" || run.status === "running") {
    const path = { session_id, run_id: run.id };
    run = success(await api.GET("/v1/sessions/{session_id}/runs/{run_id}", { params: { path } }));
  }
  return run;
}

/** Yields all items of the history, page by page. */
async function* history(session_id: string): AsyncGenerator<Schemas["HistoryItem"]> {
  let after: string | undefined;
  do {
    const params = { path: { session_id }, query: { limit: 2, after, order: "asc" as const } };
    const page = success(await api.GET("/v1/sessions/{session_id}/messages", { params }));
    yield* page.data;
    after = page.has_more ? page.next_cursor : undefined;
  } while (after !== undefined);
}

/** Yields the events and previews of a run. */
async function* follow(session_id: string, run_id: string): AsyncGenerator<Streamed> {
  const params = { path: { session_id, run_id }, query: { deltas: true } };
  const answer = await api.GET("/v1/sessions/{session_id}/runs/{run_id}/stream", {
    params,
    headers: { accept: "application/jsonl" },
    parseAs: "stream",
  });
  if (answer.error !== undefined) throw new Refused(answer.error);
  let rest = "";
  for await (const piece of (answer.data as ReadableStream).pipeThrough(new TextDecoderStream())) {
    const lines = (rest + piece).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) yield JSON.parse(line) as Streamed;
  }
}

/** Describes an event in one line. Events of other types have no description. */
function describe(event: Streamed): string | undefined {
  switch (event.type) {
    case "user.message":
      return `you: ${texts(event.content)}`;
    case "agent.message":
      return `agent: ${texts(event.content)} (${event.seq})`;
    case "agent.tool_use":
      return `call ${event.id} of ${event.name}: ${event.evaluated_permission}`;
    case "agent.tool_result":
      return `${event.tool_use_id} ${event.is_error ? "failed" : "is done"} after ${event.duration_ms} ms`;
    case "session.status_idle":
      return `idle: ${event.stop_reason.type}`;
    case "session.error":
      return `${event.error.type}: ${event.error.message}`;
    case "event_delta":
      return event.delta.type === "content_delta" ? event.delta.content.text : event.delta.partial_json;
    case "event_start":
      return `${event.event.type} begins`;
    case "session.deleted":
      return `${event.session_id} is gone`;
    default:
      return undefined;
  }
}

function texts(blocks: Schemas["ContentBlock"][]): string {
  return blocks.map((block) => (block.type === "text" ? (block.text ?? "") : "")).join("");
}

/** Returns how a client should react to a problem. */
function advice(problem: Problem): "fix" | "wait" | "ask" | "give up" {
  switch (problem.code) {
    case "bad_json":
    case "body_incomplete":
    case "body_too_large":
    case "idempotency_key_reused":
    case "invalid_cursor":
    case "invalid_host":
    case "invalid_query":
    case "file_not_found":
    case "message_not_found":
    case "method_not_allowed":
    case "not_acceptable":
    case "route_not_found":
    case "unsupported_media_type":
    case "validation_failed":
      return "fix";
    case "database_unavailable":
    case "draining":
    case "overloaded":
    case "queue_full":
    case "rate_limited":
    case "request_timeout":
    case "session_busy":
    case "too_many_copies":
    case "too_many_deletions":
    case "too_many_verifications":
    case "too_many_large_bodies":
    case "too_many_streams":
    case "too_many_tests":
    case "too_many_unknown_keys":
    case "too_many_waits":
      return "wait";
    case "action_required":
    case "agent_name_taken":
    case "call_not_waiting":
    case "external_id_taken":
    case "forbidden":
    case "forbidden_origin":
    case "misdirected_request":
    case "quota_exceeded":
    case "run_not_retryable":
    case "session_archived":
    case "session_has_forks":
    case "storage_quota_exceeded":
    case "too_many_agent_versions":
    case "too_many_agents":
    case "too_many_webhooks":
    case "unauthenticated":
    case "version_mismatch":
    case "webhook_disabled":
    case "workspace_too_large":
      return "ask";
    case "agent_not_found":
    case "already_resolved":
    case "approval_expired":
    case "approval_not_found":
    case "browser_token_not_found":
    case "delivery_not_found":
    case "environment_not_found":
    case "internal":
    case "request_not_found":
    case "run_not_found":
    case "session_not_found":
    case "tool_call_not_found":
    case "tool_result_expired":
    case "webhook_not_found":
      return "give up";
    default:
      // A later service may have other codes. The compiler checks that all current codes are listed.
      problem.code satisfies never;
      return "ask";
  }
}

async function refused(request: Promise<unknown>): Promise<Problem> {
  const error = await request.then(
    () => undefined,
    (error: unknown) => error,
  );
  assert(error instanceof Refused);
  return error.problem;
}

async function conversation(): Promise<Session> {
  const session = await createSession("A client");
  const run = await ask(session.id, "Write hello to notes.txt and then read notes.txt", "one");
  assert.equal(run.status, "completed");
  assert.equal(run.stop_reason?.type, "end_turn");
  assert.equal((await ask(session.id, "Write hello to notes.txt and then read notes.txt", "one")).id, run.id);

  const lines: string[] = [];
  for await (const event of follow(session.id, run.id)) {
    const line = describe(event);
    if (line !== undefined) lines.push(line);
  }
  assert.equal(lines[0], "you: Write hello to notes.txt and then read notes.txt");
  assert.equal(lines.at(-1), "idle: end_turn");

  const roles: string[] = [];
  for await (const item of history(session.id)) roles.push(item.message.role);
  assert.deepEqual(roles, ["user", "assistant", "user", "assistant", "user", "assistant"]);
  return session;
}

async function changes(session: Session): Promise<void> {
  const path = { session_id: session.id };
  const renamed = success(
    await api.PATCH("/v1/sessions/{session_id}", { params: { path }, body: { title: null, archived: true } }),
  );
  assert.deepEqual([renamed.title, renamed.archived], [null, true]);
  const archived = await refused(ask(session.id, "Are you there?", "two"));
  assert.deepEqual([archived.code, advice(archived)], ["session_archived", "ask"]);
  const fork = success(await api.POST("/v1/sessions/{session_id}/forks", { params: { path }, body: { before: 3 } }));
  assert.equal(fork.forked_from?.session_id, session.id);
  const usage = success(await api.GET("/v1/usage", { params: { query: { group_by: "model" } } }));
  assert.equal(usage.type, "usage");
  const gone = await api.DELETE("/v1/sessions/{session_id}", { params: { path, query: { forks: "delete" } } });
  assert.equal(gone.response.status, 204);
  const missing = await refused(createSession("x".repeat(501)));
  assert.equal(missing.errors?.[0]?.pointer, "/title");
}

await changes(await conversation());
console.log("client: ok");
