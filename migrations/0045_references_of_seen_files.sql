-- See 0039.
LOCK TABLE sessions, seen_files;
ALTER TABLE seen_files DROP CONSTRAINT seen_files_session_id_tenant_id_fkey;
