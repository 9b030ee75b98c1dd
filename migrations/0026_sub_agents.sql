-- A sub-agent works in a session of its own, which belongs to the call that asked for it. No cascade:
-- who deletes a session names those of its sub-agents as well, so that what they used is kept.
ALTER TABLE sessions
    ADD COLUMN parent_session_id uuid REFERENCES sessions (id),
    ADD COLUMN parent_run_id uuid,
    ADD COLUMN parent_tool_use_id text,
    ADD CONSTRAINT sessions_of_calls CHECK (
        (parent_session_id IS NULL) = (parent_run_id IS NULL)
        AND (parent_session_id IS NULL) = (parent_tool_use_id IS NULL));
CREATE INDEX sessions_by_parent ON sessions (parent_session_id) WHERE parent_session_id IS NOT NULL;

-- The run of the sub-agent that a call started, by which whoever takes the call over finds it. It is
-- written with the row's 'started', under the fence, in the transaction that makes the run: so a call
-- has one sub-agent, however often a worker dies. The ids of calls alone would not tell, because some
-- servers repeat them from round to round.
ALTER TABLE tool_calls ADD COLUMN child_run_id uuid;
