-- The history: append-only, and byte for byte what the model sent and was sent.
CREATE TABLE messages (
    session_id uuid NOT NULL,
    seq        integer NOT NULL,
    tenant_id  uuid NOT NULL,
    run_id     uuid NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    -- The attempt that wrote it; it never goes back along a run.
    attempt    integer NOT NULL,
    role       text NOT NULL CHECK (role IN ('user', 'assistant')),
    -- The model's own id of an assistant message, the client's or ours of a user message.
    message_id text NOT NULL,
    -- json, not jsonb: jsonb reorders keys, drops duplicates, rewrites numbers and refuses
    -- \u0000, and the model refuses a history in which a byte before a thinking block changed.
    content    json NOT NULL CHECK (json_array_length(content) > 0),
    model      text,
    stop_reason text,
    usage      json,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (session_id, seq),
    FOREIGN KEY (session_id, tenant_id) REFERENCES sessions (id, tenant_id) ON DELETE CASCADE,
    CHECK (seq > 0),
    CHECK ((role = 'assistant') = (stop_reason IS NOT NULL))
);

CREATE INDEX messages_by_run ON messages (run_id, seq);

-- A privilege could not stop the owner of the table, and a service with a database of its own is
-- the owner. Rows go only with their session.
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the table % is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
$$;

CREATE TRIGGER messages_append_only BEFORE UPDATE ON messages
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
-- A cascade from the session runs one trigger level deeper than a plain DELETE.
CREATE TRIGGER messages_no_delete BEFORE DELETE ON messages
    FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION refuse_change();
CREATE TRIGGER messages_no_truncate BEFORE TRUNCATE ON messages
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
