-- no-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS sessions_in_feed ON sessions (tenant_id, created_by)
    WHERE created_by IS NOT NULL;
