-- $1: the tenants, $2: the snapshot of the position, $3: the limit
WITH now AS MATERIALIZED (
    SELECT pg_current_snapshot() AS at, $2::text::pg_snapshot AS after
), change (tenant_id, session_id, name, is_deleted, user_name, agent_name) AS (
    SELECT e.tenant_id, e.session_id,
           CASE
               WHEN e.type = 'session.status_running' THEN 'running'
               WHEN e.type = 'session.status_idle' THEN CASE
                   WHEN e.body -> 'stop_reason' ->> 'type' = 'requires_action'
                   THEN 'requires_action' ELSE 'finished' END
               WHEN e.body ->> 'archived' = 'true' THEN 'archived'
               WHEN e.body ->> 'archived' = 'false' THEN 'restored'
               ELSE 'updated' END,
           false, NULL, NULL
    FROM events e, now
    WHERE e.tenant_id = ANY ($1)
      AND e.type IN ('session.status_running', 'session.status_idle', 'session.updated')
      AND e.stored_by >= pg_snapshot_xmin($2::text::pg_snapshot)
      AND NOT pg_visible_in_snapshot(e.stored_by, now.after)
      AND e.stored_by < pg_snapshot_xmax(now.at)
    UNION ALL
    SELECT s.tenant_id, s.id, 'created', false, NULL, NULL
    FROM sessions s, now
    WHERE s.tenant_id = ANY ($1) AND s.parent_session_id IS NULL
      AND s.created_by >= pg_snapshot_xmin($2::text::pg_snapshot)
      AND NOT pg_visible_in_snapshot(s.created_by, now.after)
      AND s.created_by < pg_snapshot_xmax(now.at)
    UNION ALL
    SELECT d.tenant_id, d.id, 'deleted', true, d.user_name, d.agent_name
    FROM deleted_sessions d, now
    WHERE d.tenant_id = ANY ($1)
      AND d.deleted_by >= pg_snapshot_xmin($2::text::pg_snapshot)
      AND NOT pg_visible_in_snapshot(d.deleted_by, now.after)
      AND d.deleted_by < pg_snapshot_xmax(now.at)
), changed AS (
    SELECT tenant_id, session_id, array_agg(DISTINCT name) AS names,
           bool_or(is_deleted) AS is_deleted, max(user_name) AS user_name,
           max(agent_name) AS agent_name
    FROM change GROUP BY tenant_id, session_id
    ORDER BY session_id LIMIT $3
)
SELECT floor(extract(epoch FROM clock_timestamp()))::bigint::text || '-'
   || now.at::text AS "position!",
   c.tenant_id AS "tenant_id?", c.session_id AS "session_id?", c.names AS "names?",
   coalesce(c.is_deleted, false) AS "is_deleted!", c.user_name AS "user_name?",
   c.agent_name AS "agent_name?"
FROM now LEFT JOIN changed c ON true
