-- More of what a request uses: what the model's side counts besides the four kinds of tokens.
ALTER TABLE sessions
    ADD COLUMN cache_creation_1h_input_tokens bigint NOT NULL DEFAULT 0,
    ADD COLUMN thinking_tokens     bigint NOT NULL DEFAULT 0,
    ADD COLUMN web_search_requests bigint NOT NULL DEFAULT 0,
    ADD COLUMN web_fetch_requests  bigint NOT NULL DEFAULT 0;
ALTER TABLE runs
    ADD COLUMN cache_creation_1h_input_tokens bigint NOT NULL DEFAULT 0,
    ADD COLUMN thinking_tokens     bigint NOT NULL DEFAULT 0,
    ADD COLUMN web_search_requests bigint NOT NULL DEFAULT 0,
    ADD COLUMN web_fetch_requests  bigint NOT NULL DEFAULT 0;
