-- The courses that agents look things up in, as `twostep catalog import` puts them here.
CREATE TABLE courses (
    id         uuid PRIMARY KEY,
    tenant_id  uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    title      text NOT NULL,
    link       text,
    instructor text,
    imported_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (id, tenant_id),
    -- A course that is imported again takes the place of the one before.
    UNIQUE (tenant_id, title)
);

CREATE TABLE lessons (
    course_id uuid NOT NULL,
    number    integer NOT NULL,
    tenant_id uuid NOT NULL,
    title     text NOT NULL,
    link      text,
    PRIMARY KEY (course_id, number),
    FOREIGN KEY (course_id, tenant_id) REFERENCES courses (id, tenant_id) ON DELETE CASCADE
);

-- What the lessons say, in passages that a model can read several of.
CREATE TABLE chunks (
    course_id uuid NOT NULL,
    -- The place in the course, from 1.
    n         integer NOT NULL,
    tenant_id uuid NOT NULL,
    -- Null for what stands before the first lesson.
    lesson_number integer,
    text      text NOT NULL,
    -- What it is found by: the lesson's title (A), the text (B), the course's title (C).
    words     tsvector NOT NULL,
    PRIMARY KEY (course_id, n),
    FOREIGN KEY (course_id, tenant_id) REFERENCES courses (id, tenant_id) ON DELETE CASCADE,
    FOREIGN KEY (course_id, lesson_number) REFERENCES lessons (course_id, number) ON DELETE CASCADE
);
-- Written at once, and not behind a list that searches would have to read through until the next
-- vacuum: courses are imported seldom.
CREATE INDEX chunks_by_words ON chunks USING gin (words) WITH (fastupdate = off);
-- So that a lesson goes without a look at all passages.
CREATE INDEX chunks_by_lesson ON chunks (course_id, lesson_number);

SELECT keep_tenants_apart(named) FROM unnest('{courses, lessons, chunks}'::regclass[]) AS named;
GRANT SELECT, INSERT, UPDATE, DELETE ON courses, lessons, chunks TO twostep_service;
GRANT SELECT ON courses, lessons, chunks TO twostep_tenant;

-- Passages that have a word, at most so many. Of a word that is in very many, the index gives some and
-- not all (a setting for this statement alone): to list them takes long, and tells little.
CREATE FUNCTION chunks_with_word(tenant uuid, word tsquery, lesson integer, most bigint)
RETURNS TABLE (course_id uuid, n integer)
LANGUAGE sql STABLE ROWS 200 SET gin_fuzzy_search_limit = 2000 AS $$
    SELECT course_id, n FROM chunks
    WHERE tenant_id = tenant AND words @@ word AND (lesson IS NULL OR lesson_number = lesson)
    LIMIT most
$$;

-- What an answer that rests on a call can name: an array of titles and links, in the order in which
-- the result has them. With the row of the call, so that they are in the order of the calls.
ALTER TABLE tool_calls ADD COLUMN sources json;
