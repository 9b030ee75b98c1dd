-- See 0039.
LOCK TABLE sessions, requests;
ALTER TABLE requests DROP CONSTRAINT requests_session_id_tenant_id_fkey;
