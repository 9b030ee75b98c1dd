-- What requests to the model cost, in micro-dollars: rounded once, with each request, so that all
-- sums agree. Null where no price is known.
ALTER TABLE sessions ADD COLUMN cost bigint;
ALTER TABLE runs ADD COLUMN cost bigint;
-- The number of the run's newest request, failed ones included; given out here, under the lock of
-- the step that stores the request.
ALTER TABLE runs ADD COLUMN last_request integer NOT NULL DEFAULT 0;

-- Every request to the model that got an answer or was given up. The body is not kept, which would
-- be quadratic in the history, but what it takes to make the very same bytes again.
CREATE TABLE requests (
    session_id uuid NOT NULL,
    run_id     uuid NOT NULL,
    -- Its number in the run, from 1.
    n          integer NOT NULL,
    tenant_id  uuid NOT NULL,
    -- The attempt of the run that sent it.
    attempt    integer NOT NULL,
    model      text NOT NULL,
    -- The last message of the history that it carries.
    message_seq integer NOT NULL,
    -- What else varies between the requests of a session.
    form       json NOT NULL,
    -- SHA-256 of the body, and its length in bytes.
    body_hash   bytea NOT NULL,
    body_length bigint NOT NULL,
    -- Hashes over the parts that a later request repeats.
    prefix     json,
    -- Its tries.
    attempts   json NOT NULL DEFAULT '[]',
    -- Null: there was no reply.
    stop_reason text,
    error      json,
    input_tokens                   bigint NOT NULL,
    cache_creation_input_tokens    bigint NOT NULL,
    cache_read_input_tokens        bigint NOT NULL,
    output_tokens                  bigint NOT NULL,
    cache_creation_1h_input_tokens bigint NOT NULL,
    thinking_tokens                bigint NOT NULL,
    web_search_requests            bigint NOT NULL,
    web_fetch_requests             bigint NOT NULL,
    cost        bigint,
    duration_ms bigint NOT NULL,
    -- When it ended; what it used counts on this day.
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (session_id, run_id, n),
    FOREIGN KEY (session_id, tenant_id) REFERENCES sessions (id, tenant_id) ON DELETE CASCADE
);

-- A tenant's usage of some days is added up from rows. A row of sums for each day would be locked
-- by every step of the tenant until its commit is on disk.
CREATE INDEX requests_by_tenant ON requests (tenant_id, created_at);
