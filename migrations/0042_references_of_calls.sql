-- See 0039. A call is inserted with its message, in one statement.
LOCK TABLE sessions, runs, messages, tool_calls;
ALTER TABLE tool_calls
    DROP CONSTRAINT tool_calls_session_id_tenant_id_fkey,
    DROP CONSTRAINT tool_calls_run_id_fkey,
    DROP CONSTRAINT tool_calls_session_id_message_seq_fkey;
