-- The queued runs that can start, in the order in which workers claim them: one place for the order, so
-- that claims and the positions that clients see cannot differ.
--
-- Tenants take turns. A run's turn is the number of runs of its tenant that are running or ahead of it
-- in the tenant's own queue, so a tenant with few runs never waits behind all runs of another one. In a
-- turn, the tenant that was served the longest ago comes first. The runs of a tenant start in the order
-- of their acceptance.
--
-- A run whose session has an earlier run cannot start and is not in the view. Only a role that sees all
-- tenants gets the real order.
CREATE VIEW run_queue WITH (security_invoker = true) AS
WITH startable AS (
    SELECT r.id, r.session_id, r.tenant_id, r.created_at,
           row_number() OVER (PARTITION BY r.tenant_id ORDER BY r.created_at, r.id) AS place
    FROM runs r
    WHERE r.status = 'queued'
      AND NOT EXISTS (SELECT FROM runs o WHERE o.session_id = r.session_id
                        AND o.status IN ('running', 'requires_action'))
      AND NOT EXISTS (SELECT FROM runs o WHERE o.session_id = r.session_id
                        AND o.status = 'queued' AND o.accepted_seq < r.accepted_seq)
), busy AS (
    SELECT tenant_id, count(*) AS runs FROM runs WHERE status = 'running' GROUP BY tenant_id
)
SELECT s.id, s.session_id, s.tenant_id, s.created_at,
       row_number() OVER (
           ORDER BY coalesce(busy.runs, 0) + s.place, t.served_at NULLS FIRST, s.created_at, s.id
       ) AS position
FROM startable s JOIN tenants t ON t.id = s.tenant_id LEFT JOIN busy ON busy.tenant_id = s.tenant_id;

GRANT SELECT ON run_queue TO twostep_service;
