-- $1 tenant, $2 query, $3 course, $4 lesson, $5 limit, $6 to $8 the constants of the module.
WITH word AS MATERIALIZED (
    SELECT '''' || replace(replace(lexeme, '\', '\\'), '''', '''''') || '''' AS quoted
    FROM unnest(to_tsvector('english', $2)) ORDER BY positions[1] LIMIT $6
), asked AS MATERIALIZED (
    SELECT string_agg(quoted, ' & ')::tsquery AS all_of,
           string_agg(quoted || ':AB', ' | ')::tsquery AS any_of FROM word
), whole AS MATERIALIZED (
    SELECT course_id, n FROM chunks, asked
    WHERE $3::uuid IS NULL AND tenant_id = $1 AND words @@ all_of AND words @@ any_of
      AND ($4::int IS NULL OR lesson_number = $4)
    LIMIT $7
), hit AS MATERIALIZED (
    -- In all courses: by the index of words, unless enough passages have all of them.
    SELECT one.course_id, one.n, quoted
    FROM word, LATERAL chunks_with_word($1, (quoted || ':AB')::tsquery, $4, $8) one
    WHERE $3::uuid IS NULL AND (SELECT count(*) FROM whole) < $5
    UNION ALL
    -- In one course, whose passages are few enough to be read.
    SELECT course_id, n, quoted
    FROM word JOIN chunks ON course_id = $3 AND tenant_id = $1
         AND words @@ (quoted || ':AB')::tsquery AND ($4::int IS NULL OR lesson_number = $4)
), weighed AS (
    SELECT quoted, greatest(ln($8::float8 / count(*)), 0) AS worth FROM hit GROUP BY quoted
), candidate AS (
    SELECT course_id, n, sum(worth) AS worth
    FROM (SELECT course_id, n, worth FROM hit JOIN weighed USING (quoted)
          UNION ALL SELECT course_id, n, 0 FROM whole) found
    GROUP BY course_id, n
), best AS (
    SELECT course_id, n, words @@ all_of AS has_all, worth,
           -- The weights of D, C, B and A.
           ts_rank('{0, 0, 0.4, 1}', words, any_of) AS rank
    FROM candidate JOIN chunks USING (course_id, n), asked
    ORDER BY has_all DESC, worth DESC, rank DESC, course_id, n LIMIT $5
)
SELECT c.title AS course, c.link AS course_link, k.lesson_number AS lesson,
       l.title AS "lesson_title?", l.link AS lesson_link, k.text
FROM best JOIN chunks k USING (course_id, n) JOIN courses c ON c.id = k.course_id
LEFT JOIN lessons l ON l.course_id = k.course_id AND l.number = k.lesson_number
ORDER BY has_all DESC, worth DESC, rank DESC, k.course_id, k.n
