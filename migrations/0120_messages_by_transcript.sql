-- no-transaction
-- Clients of Chat Completions name no session: the transcript that they send again does. The ids of
-- these messages are hashes of transcripts, with a prefix of their own. Other messages pay nothing for
-- the index.
CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_by_transcript
    ON runs (tenant_id, client_message_id)
    WHERE left(client_message_id, 4) = 'oai_';
