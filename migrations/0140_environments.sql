-- Environments of the protocol of Claude Managed Agents: names that sessions refer to. The tools of a
-- session work in its workspace, whatever its environment is.
CREATE TABLE environments (
    id          uuid PRIMARY KEY,
    tenant_id   uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    name        text NOT NULL,
    description text,
    -- Strings by their names.
    metadata    json NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    archived_at timestamptz
);
CREATE INDEX environments_by_tenant ON environments (tenant_id);
SELECT keep_tenants_apart('environments');
GRANT SELECT, INSERT, UPDATE, DELETE ON environments TO twostep_service, twostep_tenant;
