-- The numbered facts of a session that clients may see. Truth for every stream: a client that
-- comes back reads on from the number that it saw last.
CREATE TABLE events (
    session_id uuid NOT NULL,
    seq        bigint NOT NULL,
    tenant_id  uuid NOT NULL,
    run_id     uuid,
    -- evt_..., or the id of the message or call that the event tells of.
    event_id   text NOT NULL,
    type       text NOT NULL,
    -- The type and its own fields; the base fields are columns.
    body       json NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (session_id, seq),
    FOREIGN KEY (session_id, tenant_id) REFERENCES sessions (id, tenant_id) ON DELETE CASCADE
);
