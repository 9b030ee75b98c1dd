-- no-transaction
-- In place of runs_by_idempotency_key, which 0050 drops: it had an entry for each version of each run,
-- also of those without a key.
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS runs_with_idempotency_key
    ON runs (session_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
