-- A session that is put away: lists leave it out, and it takes no messages.
ALTER TABLE sessions ADD COLUMN archived_at timestamptz;
-- The usual list, and that of what is put away. Nothing of it changes while a session works.
CREATE INDEX sessions_in_use ON sessions (tenant_id, id DESC) WHERE archived_at IS NULL;
CREATE INDEX sessions_put_away ON sessions (tenant_id, id DESC) WHERE archived_at IS NOT NULL;

-- One member of a session's metadata, as it is searched for. A hash, because an index takes no long
-- texts.
CREATE FUNCTION metadata_term(key text, value text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT hashtextextended(length(key) || ':' || key || value COLLATE "C", 0)
$$;

-- The members of metadata that are texts, numbers or truths. A text that the database cannot hold,
-- one with a NUL, makes that none of them are found. Each is what metadata_term gives, but nothing
-- of ours may be called here: a dump is restored without a search path.
CREATE FUNCTION metadata_terms(metadata json) RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF metadata::text = '{}' THEN
        RETURN NULL;
    END IF;
    RETURN (SELECT array_agg(hashtextextended(
                length(key) || ':' || key || (value #>> '{}') COLLATE "C", 0))
            FROM json_each(metadata)
            WHERE json_typeof(value) IN ('string', 'number', 'boolean'));
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN NULL;
END
$$;

-- Columns and not expressions in the indexes: the row of a session changes with every step of a
-- run, and these are made anew only when title or metadata are.
ALTER TABLE sessions
    ADD COLUMN metadata_terms bigint[] GENERATED ALWAYS AS (metadata_terms(metadata)) STORED,
    ADD COLUMN title_words tsvector GENERATED ALWAYS AS (to_tsvector('simple', title)) STORED;
CREATE INDEX sessions_by_metadata ON sessions USING gin (metadata_terms)
    WHERE metadata_terms IS NOT NULL;
CREATE INDEX sessions_by_title ON sessions USING gin (title_words) WHERE title_words IS NOT NULL;

-- The words of a message as people typed it, in no language's grammar. Its event is written once and
-- has neither results of tools nor what the model says, which would cost each step more than all
-- searches save. A long text is found by its beginning. What cannot be read is not found: it must not
-- stand in the way of a message.
CREATE FUNCTION typed_words(body json) RETURNS tsvector
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN to_tsvector('simple', left(
        (SELECT string_agg(block ->> 'text', ' ') FROM json_array_elements(body -> 'content') block),
        4000));
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN NULL;
END
$$;
CREATE INDEX events_by_words ON events USING gin (typed_words(body)) WHERE type = 'user.message';

-- A run that was made elsewhere, and came with an import of its session. It used nothing here.
ALTER TABLE runs ADD COLUMN imported boolean NOT NULL DEFAULT false;
