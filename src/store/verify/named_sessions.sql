-- The next sessions after $1, at most $2, that rows of the tables without a foreign key name. If one
-- does not exist, `tables` names the tables that have rows of it.
WITH RECURSIVE named (id) AS (
    SELECT $1::uuid
    UNION ALL
    SELECT (
        SELECT next.id FROM (
            (SELECT session_id FROM runs
             WHERE session_id > named.id ORDER BY session_id LIMIT 1)
            UNION ALL
            (SELECT session_id FROM messages
             WHERE session_id > named.id ORDER BY session_id LIMIT 1)
            UNION ALL
            (SELECT session_id FROM tool_calls
             WHERE session_id > named.id ORDER BY session_id LIMIT 1)
            UNION ALL
            (SELECT session_id FROM events
             WHERE session_id > named.id ORDER BY session_id LIMIT 1)
            UNION ALL
            (SELECT session_id FROM requests
             WHERE session_id > named.id ORDER BY session_id LIMIT 1)
            UNION ALL
            (SELECT session_id FROM seen_files
             WHERE session_id > named.id ORDER BY session_id LIMIT 1)
        ) AS next (id)
        ORDER BY next.id LIMIT 1)
    FROM named WHERE named.id IS NOT NULL
), next AS MATERIALIZED (
    SELECT id FROM named OFFSET 1 LIMIT $2
)
SELECT next.id AS "id!",
       CASE WHEN NOT EXISTS (SELECT FROM sessions s WHERE s.id = next.id) THEN
           concat_ws(', ',
               CASE WHEN EXISTS (SELECT FROM runs r WHERE r.session_id = next.id)
                   THEN 'runs' END,
               CASE WHEN EXISTS (SELECT FROM messages m WHERE m.session_id = next.id)
                   THEN 'messages' END,
               CASE WHEN EXISTS (SELECT FROM tool_calls c WHERE c.session_id = next.id)
                   THEN 'tool_calls' END,
               CASE WHEN EXISTS (SELECT FROM events e WHERE e.session_id = next.id)
                   THEN 'events' END,
               CASE WHEN EXISTS (SELECT FROM requests q WHERE q.session_id = next.id)
                   THEN 'requests' END,
               CASE WHEN EXISTS (SELECT FROM seen_files f WHERE f.session_id = next.id)
                   THEN 'seen_files' END)
       END AS tables
FROM next WHERE next.id IS NOT NULL
ORDER BY next.id
