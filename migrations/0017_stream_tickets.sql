-- Tickets for browsers, whose EventSource can send no key: each opens one stream of one session,
-- once and soon. Here and not in memory, because the stream may be asked for at another process.
CREATE TABLE stream_tickets (
    -- SHA-256 of the ticket, which nobody keeps. It has 256 random bits, as a key has.
    secret_hash bytea PRIMARY KEY CHECK (octet_length(secret_hash) = 32),
    session_id  uuid NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    tenant_id   uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    -- The key that made it, whose end is the ticket's and its stream's. None where nobody is asked
    -- for a key; such a ticket opens nothing where somebody is.
    key_id      uuid REFERENCES api_keys (id) ON DELETE CASCADE,
    expires_at  timestamptz NOT NULL
);
-- With a session, a tenant or a key go its tickets; and what nobody used is swept.
CREATE INDEX stream_tickets_by_session ON stream_tickets (session_id);
CREATE INDEX stream_tickets_by_expiry ON stream_tickets (expires_at);
