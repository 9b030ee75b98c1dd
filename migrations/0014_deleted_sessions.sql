-- What the requests of deleted sessions used, by day and model: they are gone with their sessions,
-- and a tenant's usage must not shrink. Written only when a session is deleted, so that no step
-- waits for its lock.
CREATE TABLE deleted_usage (
    tenant_id uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    -- By UTC.
    day       date NOT NULL,
    model     text NOT NULL,
    -- Those that got a reply.
    requests  bigint NOT NULL,
    input_tokens                   bigint NOT NULL,
    cache_creation_input_tokens    bigint NOT NULL,
    cache_read_input_tokens        bigint NOT NULL,
    output_tokens                  bigint NOT NULL,
    cache_creation_1h_input_tokens bigint NOT NULL,
    thinking_tokens                bigint NOT NULL,
    web_search_requests            bigint NOT NULL,
    web_fetch_requests             bigint NOT NULL,
    -- Micro-dollars; null where no price was known.
    cost      bigint,
    PRIMARY KEY (tenant_id, day, model)
);

-- With a session go its runs, and with each of them its calls: they would be looked for in all
-- calls of all sessions.
CREATE INDEX tool_calls_by_run ON tool_calls (run_id);
