-- The feedback of users on replies of the model, at most one for each reply. A fork has its own, also on
-- replies that it inherits.
CREATE TABLE message_feedback (
    session_id uuid NOT NULL,
    message_id text NOT NULL,
    tenant_id  uuid NOT NULL,
    rating     text NOT NULL CHECK (rating IN ('up', 'down')),
    text       text CHECK (char_length(text) BETWEEN 1 AND 4000),
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (session_id, message_id),
    FOREIGN KEY (session_id, tenant_id) REFERENCES sessions (id, tenant_id) ON DELETE CASCADE
);
SELECT keep_tenants_apart('message_feedback');
GRANT SELECT, INSERT, UPDATE, DELETE ON message_feedback TO twostep_service, twostep_tenant;
