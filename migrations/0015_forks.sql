-- A session that goes on from a message of another one: a fork. It has no copy of that one's
-- history, but refers to it: what is before the fork point is never written again.
ALTER TABLE sessions
    -- Nothing cascades: a session stays as long as it has forks, unless they go together.
    ADD COLUMN forked_from uuid REFERENCES sessions (id),
    -- The last message that both have; 0 for none.
    ADD COLUMN forked_at integer CHECK (forked_at >= 0),
    -- What makes a repeated fork the same fork.
    ADD COLUMN fork_key text,
    ADD COLUMN fork_fingerprint bytea,
    ADD CONSTRAINT sessions_forked CHECK (
        (forked_from IS NULL) = (forked_at IS NULL)
        AND (forked_from IS NULL) = (fork_fingerprint IS NULL)
        AND (forked_from IS NOT NULL OR fork_key IS NULL));
-- The forks of a session, newest first.
CREATE INDEX sessions_by_source ON sessions (forked_from, id DESC) WHERE forked_from IS NOT NULL;
CREATE UNIQUE INDEX sessions_by_fork_key ON sessions (forked_from, fork_key)
    WHERE fork_key IS NOT NULL;

-- Where the messages of a fork stand that are not its own: a row for each session that wrote some
-- of them, however many forks lie between. Its own begin behind the last of them.
CREATE TABLE inherited (
    session_id uuid NOT NULL,
    tenant_id  uuid NOT NULL,
    source_id  uuid NOT NULL REFERENCES sessions (id),
    -- Only messages behind this one.
    after_seq  integer NOT NULL CHECK (after_seq >= 0),
    -- The last one.
    up_to      integer NOT NULL,
    PRIMARY KEY (session_id, after_seq),
    FOREIGN KEY (session_id, tenant_id) REFERENCES sessions (id, tenant_id) ON DELETE CASCADE,
    CHECK (up_to > after_seq)
);
CREATE INDEX inherited_by_source ON inherited (source_id);

-- The whole history of a session: its own messages, and those that it has from others.
CREATE VIEW history AS
SELECT session_id, session_id AS stored_in, seq, tenant_id, run_id, attempt, role, message_id,
       content, model, stop_reason, usage, created_at
FROM messages
UNION ALL
SELECT i.session_id, i.source_id, m.seq, m.tenant_id, m.run_id, m.attempt, m.role, m.message_id,
       m.content, m.model, m.stop_reason, m.usage, m.created_at
FROM inherited i
JOIN messages m ON m.session_id = i.source_id AND m.seq > i.after_seq AND m.seq <= i.up_to;
