-- no-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS sessions_by_user
    ON sessions (tenant_id, user_name, id) WHERE user_name IS NOT NULL;
