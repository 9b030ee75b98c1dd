-- The newest event of the session when a message was stored. Every event that reports a part of the
-- message has this number or a smaller one, so that a client can find the events of a message without
-- a search of all events. NULL for messages that an earlier version stored.
ALTER TABLE messages ADD COLUMN last_event bigint;

-- A view keeps its columns, so the new one comes last.
CREATE OR REPLACE VIEW history WITH (security_invoker = true) AS
SELECT session_id, session_id AS stored_in, seq, tenant_id, run_id, attempt, role, message_id,
       content, model, stop_reason, usage, created_at, stop_sequence, last_event
FROM messages
UNION ALL
SELECT i.session_id, i.source_id, m.seq, m.tenant_id, m.run_id, m.attempt, m.role, m.message_id,
       m.content, m.model, m.stop_reason, m.usage, m.created_at, m.stop_sequence, m.last_event
FROM inherited i
JOIN messages m ON m.session_id = i.source_id AND m.seq > i.after_seq AND m.seq <= i.up_to;
