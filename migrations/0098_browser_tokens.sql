-- Short-lived credentials for browsers: each is valid for one session, or for the sessions of one user,
-- and only for the listed scopes.
CREATE TABLE browser_tokens (
    id           uuid PRIMARY KEY,
    -- SHA-256 of the secret.
    secret_hash  bytea NOT NULL CHECK (octet_length(secret_hash) = 32),
    tenant_id    uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    -- The API key that created it; without the key the token is not valid. NULL if the creator had a
    -- token of an identity provider, or if the service required no key.
    key_id       uuid REFERENCES api_keys (id) ON DELETE CASCADE,
    -- SHA-256 of the issuer and the subject of the creator's token, and the end of that token, beyond
    -- which the browser token cannot be renewed.
    token_holder bytea CHECK (octet_length(token_holder) = 32),
    token_until  timestamptz,
    session_id   uuid REFERENCES sessions (id) ON DELETE CASCADE,
    user_name    text,
    scopes       text[] NOT NULL CHECK (scopes <> '{}'),
    created_at   timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz NOT NULL,
    CHECK ((session_id IS NULL) <> (user_name IS NULL)),
    CHECK ((token_holder IS NULL) = (token_until IS NULL)),
    CHECK (token_holder IS NULL OR key_id IS NULL)
);
CREATE INDEX browser_tokens_by_session ON browser_tokens (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX browser_tokens_by_user ON browser_tokens (tenant_id, user_name) WHERE user_name IS NOT NULL;
CREATE INDEX browser_tokens_by_expiry ON browser_tokens (expires_at);
SELECT keep_tenants_apart('browser_tokens');
GRANT SELECT, INSERT, UPDATE, DELETE ON browser_tokens TO twostep_service, twostep_tenant;

-- Tickets that were created with a browser token end with it.
ALTER TABLE stream_tickets
    ADD COLUMN browser_token_id uuid REFERENCES browser_tokens (id) ON DELETE CASCADE;
