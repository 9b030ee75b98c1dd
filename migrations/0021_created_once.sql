-- What makes a repeated creation of a session the same creation. The key is its tenant's, and is
-- taken away when it is a day old, so that it may name something else then.
ALTER TABLE sessions
    ADD COLUMN idempotency_key text,
    -- A hash of the request, to tell a repeated one from another one with the same key.
    ADD COLUMN idempotency_fingerprint bytea,
    ADD CONSTRAINT sessions_created_once CHECK (
        (idempotency_key IS NULL) = (idempotency_fingerprint IS NULL));
CREATE UNIQUE INDEX sessions_by_idempotency_key ON sessions (tenant_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
