-- The work that one user message starts, and the queue of it.
CREATE TABLE runs (
    id         uuid PRIMARY KEY,
    session_id uuid NOT NULL,
    tenant_id  uuid NOT NULL,
    status     text NOT NULL DEFAULT 'queued' CHECK (
        status IN ('queued', 'running', 'requires_action', 'completed', 'failed', 'cancelled')),
    -- The number of the event that accepted the message: the order of the session's queue.
    accepted_seq bigint NOT NULL,
    -- The user message. It enters the history when the run first starts, so that a message that
    -- waits its turn never stands between a call and its result.
    message_id text NOT NULL,
    input      json NOT NULL,
    options    json NOT NULL DEFAULT '{}',
    -- The fencing number: every claim adds one, every write names it.
    attempt     integer NOT NULL DEFAULT 0,
    lease_owner uuid,
    lease_until timestamptz,
    -- Claims since the last step that was committed; too many mean that the run kills workers.
    takeovers   integer NOT NULL DEFAULT 0,
    cancel_requested_at timestamptz,
    -- What the run left behind, once it has settled.
    outcome     json,
    model_requests              integer NOT NULL DEFAULT 0,
    input_tokens                bigint NOT NULL DEFAULT 0,
    cache_creation_input_tokens bigint NOT NULL DEFAULT 0,
    cache_read_input_tokens     bigint NOT NULL DEFAULT 0,
    output_tokens               bigint NOT NULL DEFAULT 0,
    -- What makes a repeated post the same post.
    idempotency_key   text,
    client_message_id text,
    fingerprint       bytea NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    started_at  timestamptz,
    finished_at timestamptz,
    FOREIGN KEY (session_id, tenant_id) REFERENCES sessions (id, tenant_id) ON DELETE CASCADE,
    CHECK ((status = 'running') = (lease_until IS NOT NULL)),
    CHECK ((status IN ('completed', 'failed', 'cancelled')) = (finished_at IS NOT NULL))
);

-- One live run per session.
CREATE UNIQUE INDEX runs_one_live ON runs (session_id) WHERE status IN ('running', 'requires_action');
-- The queue of a session, oldest first.
CREATE INDEX runs_queued ON runs (session_id, accepted_seq) WHERE status = 'queued';
-- Leases, for heartbeats and for takeovers.
CREATE INDEX runs_leased ON runs (lease_until) WHERE status = 'running';
CREATE INDEX runs_by_session ON runs (session_id, accepted_seq);
-- A key belongs to the path that it is posted to, and so to the session.
CREATE UNIQUE INDEX runs_by_idempotency_key ON runs (session_id, idempotency_key);
CREATE UNIQUE INDEX runs_by_client_message_id ON runs (session_id, client_message_id);
