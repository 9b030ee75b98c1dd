-- The id of a session in the client's own system, chosen by the client. It is unique in the tenant and
-- kept as long as the session, so that one request finds or creates the session of a conversation whose
-- id the client has made. Null for sessions without one.
ALTER TABLE sessions ADD COLUMN external_id text;
