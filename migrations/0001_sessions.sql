-- Who owns sessions. Every table carries the tenant, so that no query can forget it.
CREATE TABLE tenants (
    id         uuid PRIMARY KEY,
    name       text NOT NULL UNIQUE,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- The tenant of a service without keys.
INSERT INTO tenants (id, name) VALUES ('00000000-0000-7000-8000-000000000001', 'default');

-- One conversation. What is pinned at its creation is never updated.
CREATE TABLE sessions (
    id         uuid PRIMARY KEY,
    tenant_id  uuid NOT NULL REFERENCES tenants (id),
    title      text,
    -- What the client attached; json, because jsonb reorders and drops keys.
    metadata   json NOT NULL DEFAULT '{}',
    model      text NOT NULL,
    -- The pinned settings: exact texts of system prompt and tools among them.
    settings   json NOT NULL,
    -- A folder that the operator chose for all sessions; null means a folder of the session's own.
    workspace  text,
    -- The number of the newest event. Allotting numbers here, in the transaction that inserts
    -- the events, makes them gapless and visible in order.
    last_seq         bigint NOT NULL DEFAULT 0,
    last_message_seq integer NOT NULL DEFAULT 0,
    -- Runs that wait; kept here so that the bound on them is exact under concurrent posts.
    queued           integer NOT NULL DEFAULT 0 CHECK (queued >= 0),
    -- The run that has begun and not settled; null and no queue mean that a message may begin at
    -- once. Kept here because only this row is locked, and so seen afresh, when a message comes.
    active_run_id    uuid,
    -- Sums over all requests; adding them up from messages would grow with the history.
    input_tokens                bigint NOT NULL DEFAULT 0,
    cache_creation_input_tokens bigint NOT NULL DEFAULT 0,
    cache_read_input_tokens     bigint NOT NULL DEFAULT 0,
    output_tokens               bigint NOT NULL DEFAULT 0,
    -- Why the session last came to rest; null before its first run has ended.
    stop_reason json,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    -- Children refer to both, so that a row can never belong to another tenant than its session.
    UNIQUE (id, tenant_id)
);

-- The list of a tenant's sessions, newest first; ids are time-ordered.
CREATE INDEX sessions_by_tenant ON sessions (tenant_id, id DESC);
