-- The ledger: one row per tool_use, inserted with its assistant message. It is what lets a
-- takeover tell a call that never ran from one that may have.
CREATE TABLE tool_calls (
    session_id  uuid NOT NULL,
    -- The assistant message that asks for the call. Some servers repeat ids from round to round,
    -- so an id is unique within its message only.
    message_seq integer NOT NULL,
    tool_use_id text NOT NULL,
    tenant_id   uuid NOT NULL,
    run_id      uuid NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    -- The place among the calls of the message; results are sent in this order.
    position    integer NOT NULL,
    name        text NOT NULL,
    state       text NOT NULL DEFAULT 'planned' CHECK (
        state IN ('planned', 'started', 'done', 'failed', 'interrupted', 'denied')),
    -- How often the tool itself was called: at most once for a tool with effects.
    executions  integer NOT NULL DEFAULT 0,
    -- SHA-256 of the file before and after a change of one file, recorded with 'started': after
    -- a crash they tell whether the change happened. A null hash_before means there was no file.
    hash_before bytea,
    hash_after  bytea,
    -- What the model reads.
    result      text,
    started_at  timestamptz,
    finished_at timestamptz,
    PRIMARY KEY (session_id, message_seq, tool_use_id),
    FOREIGN KEY (session_id, message_seq) REFERENCES messages (session_id, seq) ON DELETE CASCADE,
    FOREIGN KEY (session_id, tenant_id) REFERENCES sessions (id, tenant_id) ON DELETE CASCADE,
    CHECK ((state IN ('planned', 'started')) = (result IS NULL))
);
