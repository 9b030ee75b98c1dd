-- The transaction that stored an event. The stream of the session list reads changes by it: the
-- transactions that a snapshot sees are a position that no late commit can fall behind. NULL for
-- events that an earlier version stored.
ALTER TABLE events ADD COLUMN stored_by xid8;
ALTER TABLE events ALTER COLUMN stored_by SET DEFAULT pg_current_xact_id();
