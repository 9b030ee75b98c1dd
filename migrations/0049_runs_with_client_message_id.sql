-- no-transaction
-- In place of runs_by_client_message_id, which 0050 drops, as in 0048.
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS runs_with_client_message_id
    ON runs (session_id, client_message_id) WHERE client_message_id IS NOT NULL;
