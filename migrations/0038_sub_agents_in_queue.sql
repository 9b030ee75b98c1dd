-- The order of queued runs, as in 0032, but with sub-agents in it: before, a worker claimed the
-- sub-agents that its runs wait for before all other runs, whichever tenant they belonged to.
--
-- Tenants take turns. A run's turn is the number of runs of its tenant that are executed or ahead of
-- it in the tenant's own queue. In the tenant's own queue, the sub-agents that a run waits for come
-- first: otherwise all parents of a long queue would start before the first of their sub-agents, and
-- stay in the memory of their workers. A run that waits for its sub-agents holds no slot, so it does
-- not delay the turn of its tenant: that would delay its own sub-agents.
CREATE OR REPLACE VIEW run_queue WITH (security_invoker = true) AS
WITH startable AS (
    SELECT r.id, r.session_id, r.tenant_id, r.created_at,
           EXISTS (SELECT FROM runs parent
                   WHERE parent.id = s.parent_run_id AND parent.status = 'running') AS is_awaited
    FROM runs r JOIN sessions s ON s.id = r.session_id
    WHERE r.status = 'queued'
      AND NOT EXISTS (SELECT FROM runs o WHERE o.session_id = r.session_id
                        AND o.status IN ('running', 'requires_action'))
      AND NOT EXISTS (SELECT FROM runs o WHERE o.session_id = r.session_id
                        AND o.status = 'queued' AND o.accepted_seq < r.accepted_seq)
), numbered AS (
    SELECT *, row_number() OVER (
        PARTITION BY tenant_id ORDER BY is_awaited DESC, created_at, id
    ) AS place
    FROM startable
), busy AS (
    SELECT r.tenant_id, count(*) AS runs
    FROM runs r
    WHERE r.status = 'running'
      AND NOT EXISTS (SELECT FROM sessions s JOIN runs o ON o.session_id = s.id
                      WHERE s.parent_session_id = r.session_id AND s.parent_run_id = r.id
                        AND o.status IN ('queued', 'running', 'requires_action'))
    GROUP BY r.tenant_id
)
SELECT n.id, n.session_id, n.tenant_id, n.created_at,
       row_number() OVER (
           ORDER BY coalesce(busy.runs, 0) + n.place, t.served_at NULLS FIRST, n.created_at, n.id
       ) AS position
FROM numbered n JOIN tenants t ON t.id = n.tenant_id LEFT JOIN busy ON busy.tenant_id = n.tenant_id;
