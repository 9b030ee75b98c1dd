-- See 0039. The run of a message is one of its session: it was inserted or fenced in the same
-- transaction.
LOCK TABLE sessions, runs, messages;
ALTER TABLE messages
    DROP CONSTRAINT messages_session_id_tenant_id_fkey,
    DROP CONSTRAINT messages_run_id_fkey;
