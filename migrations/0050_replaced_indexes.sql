-- The indexes that those of 0047 to 0049 replace.
DROP INDEX runs_leased, runs_by_idempotency_key, runs_by_client_message_id;
