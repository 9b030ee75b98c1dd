-- What a tenant may spend. Sessions have their budgets in their settings: only one of their runs
-- is live at a time, so that nothing has to be locked for them.
CREATE TABLE budgets (
    tenant_id uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    -- A day by UTC, or all time.
    period    text NOT NULL CHECK (period IN ('day', 'total')),
    max_tokens bigint CHECK (max_tokens > 0),
    -- Micro-dollars.
    max_cost   bigint CHECK (max_cost > 0),
    -- What was spent on `day`, or at all. Reservations that have become spending are added when
    -- somebody reserves, under the lock of this row; see `reservations`.
    tokens    bigint NOT NULL DEFAULT 0,
    cost      bigint NOT NULL DEFAULT 0,
    day       date NOT NULL,
    PRIMARY KEY (tenant_id, period),
    CHECK (max_tokens IS NOT NULL OR max_cost IS NOT NULL)
);

-- The most that a request under way may take, and what requests have taken since somebody last
-- reserved. A step touches only the row of its own run, so that the steps of a tenant need not
-- wait for each other.
CREATE TABLE reservations (
    run_id     uuid PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    tenant_id  uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    tokens     bigint NOT NULL,
    cost       bigint NOT NULL,
    -- When it became spending; null while the request is under way.
    spent_at   timestamptz
);
CREATE INDEX reservations_by_tenant ON reservations (tenant_id);
