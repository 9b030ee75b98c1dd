-- A summary that stands for the beginning of a history is one more way in which what is sent
-- differs from what is stored. Only the newest one of a session is sent; the earlier ones stay, so
-- that the requests that carried them can be made again.
ALTER TABLE sent_changes
    DROP CONSTRAINT sent_changes_kind_check,
    ADD CONSTRAINT sent_changes_kind_check
        CHECK (kind IN ('thinking_dropped', 'block_replaced', 'compacted')),
    -- The blocks of the message that stands for all messages up to `message_seq`. It is signed, so
    -- it is kept byte for byte.
    ADD COLUMN content json,
    -- Tokens of the next request without and with it.
    ADD COLUMN tokens_before bigint,
    ADD COLUMN tokens_after bigint,
    ADD CHECK ((kind = 'compacted') = (content IS NOT NULL)),
    ADD CHECK ((kind = 'compacted') = (tokens_before IS NOT NULL)),
    ADD CHECK ((kind = 'compacted') = (tokens_after IS NOT NULL));
