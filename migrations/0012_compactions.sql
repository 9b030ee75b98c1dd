-- Summaries that are sent in place of the beginning of a history, which itself stays whole. Only
-- the newest one of a session is sent; the earlier ones stay, so that the requests that carried
-- them can be made again.
CREATE TABLE compactions (
    session_id uuid NOT NULL,
    tenant_id  uuid NOT NULL,
    -- The last message that it stands for.
    up_to      integer NOT NULL,
    -- The blocks of the message that is sent. It is signed, so it is kept byte for byte.
    content    json NOT NULL,
    -- Tokens of the next request without and with it.
    tokens_before bigint NOT NULL,
    tokens_after  bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- When the model's side did not take it back: then the whole history is sent again.
    refused_at timestamptz,
    PRIMARY KEY (session_id, up_to),
    FOREIGN KEY (session_id, tenant_id) REFERENCES sessions (id, tenant_id) ON DELETE CASCADE
);
