-- Tickets that were made with a token of an identity provider, which no table knows. So each says
-- itself for whom its stream counts, and when it ends.
ALTER TABLE stream_tickets
    -- SHA-256 of the issuer and the subject of the token.
    ADD COLUMN token_holder bytea CHECK (octet_length(token_holder) = 32),
    -- The end of the token, which is that of the ticket and of its stream.
    ADD COLUMN token_until timestamptz,
    ADD CHECK ((token_holder IS NULL) = (token_until IS NULL)),
    ADD CHECK (token_holder IS NULL OR key_id IS NULL);
