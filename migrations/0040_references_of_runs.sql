-- See 0039. The tables are locked in the order in which the service locks them.
LOCK TABLE sessions, runs;
ALTER TABLE runs DROP CONSTRAINT runs_session_id_tenant_id_fkey;
