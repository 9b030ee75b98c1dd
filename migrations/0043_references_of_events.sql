-- See 0039.
LOCK TABLE sessions, events;
ALTER TABLE events DROP CONSTRAINT events_session_id_tenant_id_fkey;
