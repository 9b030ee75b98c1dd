-- no-transaction
-- The leases, in place of runs_leased, which 0050 drops. Its condition was `status = 'running'`, so the
-- planner read it whole for statements that look for one running run, if few runs were running when
-- the plan was made. This one serves only conditions on the lease.
CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_by_lease ON runs (lease_until)
    WHERE lease_until IS NOT NULL;
