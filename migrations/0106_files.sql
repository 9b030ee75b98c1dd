-- Uploaded files, to which messages refer by id. The content is stored as it is: images and PDF do not
-- compress.
CREATE TABLE files (
    id         uuid PRIMARY KEY,
    tenant_id  uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    -- The session that the file is deleted with: that of the upload, or of the first message that refers
    -- to the file. A file without one is deleted a day after its upload, by later uploads of the tenant.
    session_id uuid,
    name       text CHECK (char_length(name) BETWEEN 1 AND 255),
    media_type text NOT NULL,
    size       bigint NOT NULL CHECK (size > 0),
    content    bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    FOREIGN KEY (session_id, tenant_id) REFERENCES sessions (id, tenant_id) ON DELETE CASCADE
);
ALTER TABLE files ALTER COLUMN content SET STORAGE EXTERNAL;
CREATE INDEX files_by_session ON files (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX files_by_tenant ON files (tenant_id, created_at);
SELECT keep_tenants_apart('files');
GRANT SELECT, INSERT, UPDATE, DELETE ON files TO twostep_service, twostep_tenant;
