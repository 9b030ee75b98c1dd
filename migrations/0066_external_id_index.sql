-- no-transaction
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS sessions_external_id
    ON sessions (tenant_id, external_id) WHERE external_id IS NOT NULL;
