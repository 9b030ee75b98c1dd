-- Who may call. A key is shown once, when it is made; here is only what it takes to recognise it.
CREATE TABLE api_keys (
    -- Also the first part of the key, so that one is found by its id, never by a search.
    id           uuid PRIMARY KEY,
    tenant_id    uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    -- For people; two keys may share it, as a key and the one that replaces it do.
    name         text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 100),
    -- SHA-256 of the secret part. Nobody chose the secret: it has 256 random bits, which no amount
    -- of guessing finds, so there is nothing for a slow hash or a salt to protect.
    secret_hash  bytea NOT NULL CHECK (octet_length(secret_hash) = 32),
    -- What it may do; each word includes those before it.
    scope        text NOT NULL CHECK (scope IN ('read', 'write')),
    -- The key in whose place it came. A key is replaced once.
    replaces     uuid UNIQUE REFERENCES api_keys (id) ON DELETE SET NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz,
    revoked_at   timestamptz,
    -- To the minute: it is noted at most that often.
    last_used_at timestamptz
);
CREATE INDEX api_keys_by_tenant ON api_keys (tenant_id);
