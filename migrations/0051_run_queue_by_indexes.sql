-- The order of queued runs, as in 0038, read in a way that does not depend on statistics. After a
-- change of the load the statistics are old, and the planner joined all queued runs with all queued
-- or running runs: with 2,000 queued runs that took seconds, in each claim.
--
-- Here nothing is joined. Queued and running runs are read from their indexes and sorted; everything
-- else is looked up by key for each of them. A subquery in the place of a value is not turned into a
-- join.
CREATE FUNCTION ordered_run_queue()
RETURNS TABLE (id uuid, session_id uuid, tenant_id uuid, created_at timestamptz, "position" bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    RETURN QUERY
    WITH queued AS (
        SELECT r.id, r.session_id, r.tenant_id, r.created_at,
               row_number() OVER (PARTITION BY r.session_id ORDER BY r.accepted_seq) AS place
        FROM runs r
        WHERE r.status = 'queued'
    ), startable AS (
        SELECT q.id, q.session_id, q.tenant_id, q.created_at,
               coalesce((SELECT (SELECT parent.status = 'running' FROM runs parent
                                 WHERE parent.id = s.parent_run_id)
                         FROM sessions s WHERE s.id = q.session_id), false) AS is_awaited
        FROM queued q
        WHERE q.place = 1
          AND (SELECT o.id FROM runs o
               WHERE o.session_id = q.session_id AND o.status IN ('running', 'requires_action')
               LIMIT 1) IS NULL
    ), busy AS (
        -- Running runs have a lease. Not those that wait for their sub-agents. Nothing is read if no
        -- run can start.
        SELECT r.tenant_id FROM runs r
        WHERE r.lease_until IS NOT NULL AND EXISTS (SELECT FROM startable)
          AND (SELECT s.id FROM sessions s
               WHERE s.parent_session_id = r.session_id AND s.parent_run_id = r.id
                 AND (SELECT o.id FROM runs o
                      WHERE o.session_id = s.id
                        AND o.status IN ('queued', 'running', 'requires_action')
                      LIMIT 1) IS NOT NULL
               LIMIT 1) IS NULL
    ), live AS (
        SELECT s.id, s.session_id, s.tenant_id, s.created_at, s.is_awaited FROM startable s
        UNION ALL
        SELECT NULL, NULL, b.tenant_id, NULL, NULL FROM busy b
    ), counted AS (
        SELECT l.id, l.session_id, l.tenant_id, l.created_at,
               count(*) FILTER (WHERE l.id IS NULL) OVER (PARTITION BY l.tenant_id)
               + row_number() OVER (
                   PARTITION BY l.tenant_id, l.id IS NULL
                   ORDER BY l.is_awaited DESC, l.created_at, l.id
               ) AS turn
        FROM live l
    )
    SELECT c.id, c.session_id, c.tenant_id, c.created_at,
           row_number() OVER (
               ORDER BY c.turn,
                        (SELECT t.served_at FROM tenants t WHERE t.id = c.tenant_id) NULLS FIRST,
                        c.created_at, c.id)
    FROM counted c
    WHERE c.id IS NOT NULL;
END
$$;

CREATE OR REPLACE VIEW run_queue WITH (security_invoker = true) AS
SELECT q.id, q.session_id, q.tenant_id, q.created_at, q.position FROM ordered_run_queue() q;
