-- What a tenant may keep. A row replaces the operator's default for all tenants. The resources are
-- not constrained here, because a later version may know more of them.
CREATE TABLE quotas (
    tenant_id uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    resource  text NOT NULL,
    -- Null means no limit, whatever the default is.
    max       bigint CHECK (max >= 0),
    PRIMARY KEY (tenant_id, resource)
);
SELECT keep_tenants_apart('quotas');
GRANT SELECT, INSERT, UPDATE, DELETE ON quotas TO twostep_service;
GRANT SELECT ON quotas TO twostep_tenant;

-- The size of the messages and events of a session, as far as it has been measured. Steps do not
-- write it: a measurement adds the rows that were stored since the last one. So the versions of the
-- program before this table need not know it.
CREATE TABLE stored_sizes (
    session_id  uuid PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
    tenant_id   uuid NOT NULL,
    -- The size on disk, after compression.
    bytes       bigint NOT NULL,
    -- The last measured event and message.
    event_seq   bigint NOT NULL,
    message_seq integer NOT NULL
);
CREATE INDEX stored_sizes_by_tenant ON stored_sizes (tenant_id);

-- The size of the workspace folder of a session when it was last measured, by the process on whose
-- machine it is.
CREATE TABLE workspace_sizes (
    session_id  uuid PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
    tenant_id   uuid NOT NULL,
    bytes       bigint NOT NULL,
    measured_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX workspace_sizes_by_tenant ON workspace_sizes (tenant_id);

SELECT keep_tenants_apart(named) FROM unnest('{stored_sizes, workspace_sizes}'::regclass[]) AS named;
GRANT SELECT, INSERT, UPDATE, DELETE ON stored_sizes, workspace_sizes
    TO twostep_service, twostep_tenant;
