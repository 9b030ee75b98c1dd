-- Named sets of what sessions are made with. Those of the operator and of the service itself are
-- files; here are those of tenants.
CREATE TABLE agents (
    tenant_id   uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    name        text NOT NULL CHECK (name ~ '^[a-z0-9][a-z0-9_-]{0,63}$'),
    -- The newest, so that a list need not look for it.
    version     integer NOT NULL CHECK (version > 0),
    -- Of the newest version, for lists.
    description text,
    updated_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, name)
);

-- What an agent was at each time. A version never changes, so that its number says what it is; it
-- goes with its agent only.
CREATE TABLE agent_versions (
    tenant_id  uuid NOT NULL,
    name       text NOT NULL,
    version    integer NOT NULL CHECK (version > 0),
    -- Text, and not in the database's own form: the order of the members of a schema is a part of it.
    profile    json NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, name, version),
    FOREIGN KEY (tenant_id, name) REFERENCES agents (tenant_id, name) ON DELETE CASCADE
);

SELECT keep_tenants_apart(named) FROM unnest('{agents, agent_versions}'::regclass[]) AS named;
GRANT SELECT, INSERT, UPDATE, DELETE ON agents TO twostep_service, twostep_tenant;
GRANT SELECT, INSERT ON agent_versions TO twostep_service, twostep_tenant;
