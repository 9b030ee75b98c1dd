-- no-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS events_in_feed ON events (tenant_id, stored_by)
    WHERE stored_by IS NOT NULL
      AND type IN ('session.status_running', 'session.status_idle', 'session.updated');
