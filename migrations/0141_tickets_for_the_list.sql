-- A ticket without a session opens the stream of the session list. Earlier versions create none, and
-- accept none, because they compare the session.
ALTER TABLE stream_tickets ALTER COLUMN session_id DROP NOT NULL;
