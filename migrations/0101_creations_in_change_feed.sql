-- The transaction that created a session; NULL for sessions of an earlier version.
ALTER TABLE sessions ADD COLUMN created_by xid8;
ALTER TABLE sessions ALTER COLUMN created_by SET DEFAULT pg_current_xact_id();

-- Sessions that are deleted, for readers of the session list. Rows are deleted after 30 days, by later
-- deletions of the tenant. Sessions of sub-agents are in no list, so they have no row.
CREATE TABLE deleted_sessions (
    id         uuid PRIMARY KEY,
    tenant_id  uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    -- The user and the agent of the session, for readers that see or select only some sessions.
    user_name  text,
    agent_name text,
    deleted_at timestamptz NOT NULL DEFAULT now(),
    deleted_by xid8 NOT NULL DEFAULT pg_current_xact_id()
);
CREATE INDEX deleted_sessions_in_feed ON deleted_sessions (tenant_id, deleted_by);
CREATE INDEX deleted_sessions_by_age ON deleted_sessions (tenant_id, deleted_at);
SELECT keep_tenants_apart('deleted_sessions');
GRANT SELECT, INSERT, UPDATE, DELETE ON deleted_sessions TO twostep_service, twostep_tenant;
