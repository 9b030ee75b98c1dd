-- What is sent of a history otherwise than it is stored, because the model's side refused it.
-- The history itself is append-only; a change that was made once is kept for all later requests,
-- so that each begins as the one before it.
CREATE TABLE sent_changes (
    session_id uuid NOT NULL,
    tenant_id  uuid NOT NULL,
    -- The order in which they were made.
    id         bigint GENERATED ALWAYS AS IDENTITY,
    kind       text NOT NULL CHECK (kind IN ('thinking_dropped', 'block_replaced')),
    -- The message of a replaced block; the last one that is sent without thinking.
    message_seq integer NOT NULL,
    -- The block's place in the message, and in the content of that block, both from 0.
    block      integer,
    part       integer,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (session_id, id),
    FOREIGN KEY (session_id, tenant_id) REFERENCES sessions (id, tenant_id) ON DELETE CASCADE,
    -- Two workers may come to the same end.
    UNIQUE NULLS NOT DISTINCT (session_id, kind, message_seq, block, part),
    CHECK ((kind = 'block_replaced') = (block IS NOT NULL)),
    CHECK (block IS NOT NULL OR part IS NULL)
);
