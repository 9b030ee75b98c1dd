-- The reason for which a call ended without an outcome of its tool: cancelled, interrupted, denied, or
-- without an answer in time. Null for a call that has an outcome. Not constrained, because a later
-- version may know more reasons.
ALTER TABLE tool_calls ADD COLUMN end_reason text;

-- The cause of a cancellation: the client's request, a new message of the session, or the end of the
-- run that waits for this sub-agent. Null means the client.
ALTER TABLE runs ADD COLUMN cancelled_by text;
