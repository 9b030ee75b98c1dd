//! Budgets of tenants, and reservations for requests under way.
//!
//! A reservation holds the lock on the tenant's budgets, so that two requests never count on the
//! same remainder. Nothing else needs the lock: a step turns its run's reservation into spending,
//! and the next reservation adds that to the budgets.

use sqlx::{Connection as _, PgConnection};
use uuid::Uuid;

use super::StoreError;
use crate::domain::budget::{Budget, BudgetUse, Estimate, Exceeded, Scope};
use crate::domain::claim::Fence;
use crate::domain::ids::{SessionId, TenantId};

/// The outcome of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reserved {
    /// The amount is reserved.
    Granted,
    /// A budget does not allow it.
    Refused(Exceeded),
    /// The worker has lost its claim.
    Fenced,
}

/// Reserves the estimated maximum of a request from the budgets of the session's owner. A
/// reservation belongs to an attempt of a run: it ends with the step that stores the reply or
/// settles the run, or when another worker takes the run over.
pub async fn reserve(
    conn: &mut PgConnection,
    fence: Fence,
    estimate: &Estimate,
) -> Result<Reserved, StoreError> {
    let mut transaction = conn.begin().await?;
    let Some(tenant) = lock(&mut transaction, fence).await? else {
        return Ok(Reserved::Fenced);
    };
    let uses = add_up(&mut transaction, tenant, Some(fence.run_id.as_uuid())).await?;
    let refused = uses.iter().find_map(|budget_use| budget_use.refuses(estimate));
    if refused.is_none() && !uses.is_empty() {
        sqlx::query!(
            "INSERT INTO reservations (run_id, tenant_id, tokens, cost) VALUES ($1, $2, $3, $4)
             ON CONFLICT (run_id) DO UPDATE SET tokens = excluded.tokens, cost = excluded.cost",
            fence.run_id.as_uuid(),
            tenant,
            estimate.tokens,
            estimate.cost.unwrap_or(0),
        )
        .execute(&mut *transaction)
        .await?;
    }
    transaction.commit().await?;
    Ok(refused.map_or(Reserved::Granted, Reserved::Refused))
}

/// Locks the run, so that no worker takes it over meanwhile, and then the budgets of its tenant. A
/// separate statement: the next one sees what was committed while this one waited.
async fn lock(conn: &mut PgConnection, fence: Fence) -> Result<Option<Uuid>, StoreError> {
    let tenant = sqlx::query_scalar!(
        "SELECT tenant_id FROM runs
         WHERE id = $1 AND attempt = $2 AND lease_owner = $3 AND status = 'running'
         FOR NO KEY UPDATE",
        fence.run_id.as_uuid(),
        fence.attempt,
        fence.worker.as_uuid(),
    )
    .fetch_optional(&mut *conn)
    .await?;
    if let Some(tenant) = tenant {
        lock_budgets(conn, tenant).await?;
    }
    Ok(tenant)
}

async fn lock_budgets(conn: &mut PgConnection, tenant: Uuid) -> Result<(), StoreError> {
    sqlx::query!("SELECT FROM budgets WHERE tenant_id = $1 ORDER BY period FOR UPDATE", tenant)
        .execute(conn)
        .await?;
    Ok(())
}

/// Adds settled spending to the tenant's budgets, which the caller has locked, and returns their
/// budgets. The reservation of `run_id` is not counted.
async fn add_up(
    conn: &mut PgConnection,
    tenant: Uuid,
    run_id: Option<Uuid>,
) -> Result<Vec<BudgetUse>, StoreError> {
    let rows = sqlx::query!(
        r#"WITH spent AS (
               DELETE FROM reservations WHERE tenant_id = $1 AND spent_at IS NOT NULL
               RETURNING tokens, cost, (spent_at AT TIME ZONE 'UTC')::date AS day
           ), sums AS (
               SELECT today.day, coalesce(sum(tokens), 0) AS tokens, coalesce(sum(cost), 0) AS cost,
                      coalesce(sum(tokens) FILTER (WHERE spent.day = today.day), 0) AS day_tokens,
                      coalesce(sum(cost) FILTER (WHERE spent.day = today.day), 0) AS day_cost
               FROM (SELECT (now() AT TIME ZONE 'UTC')::date AS day) today LEFT JOIN spent ON true
               GROUP BY today.day
           ), budget AS (
               UPDATE budgets b SET
                   day = sums.day,
                   tokens = CASE WHEN b.period = 'total' THEN b.tokens + sums.tokens
                                 WHEN b.day < sums.day THEN sums.day_tokens
                                 ELSE b.tokens + sums.day_tokens END,
                   cost = CASE WHEN b.period = 'total' THEN b.cost + sums.cost
                               WHEN b.day < sums.day THEN sums.day_cost
                               ELSE b.cost + sums.day_cost END
               FROM sums
               WHERE b.tenant_id = $1
               RETURNING b.period, b.max_tokens, b.max_cost, b.tokens, b.cost
           )
           SELECT b.period = 'day' AS "is_of_day!", b.max_tokens, b.max_cost,
                  (b.tokens + r.tokens)::bigint AS "tokens!", (b.cost + r.cost)::bigint AS "cost!"
           FROM budget b, (SELECT coalesce(sum(tokens), 0) AS tokens, coalesce(sum(cost), 0) AS cost
                           FROM reservations
                           WHERE tenant_id = $1 AND spent_at IS NULL
                             AND run_id IS DISTINCT FROM $2) r
           ORDER BY b.period"#,
        tenant,
        run_id,
    )
    .fetch_all(conn)
    .await?;
    let scope_of = |is_of_day| if is_of_day { Scope::TenantDay } else { Scope::TenantTotal };
    Ok(rows
        .into_iter()
        .map(|row| BudgetUse {
            scope: scope_of(row.is_of_day),
            budget: Budget { tokens: row.max_tokens, cost: row.max_cost },
            tokens: row.tokens,
            cost: row.cost,
        })
        .collect())
}

/// Adds settled spending to a tenant's budgets before the runs that it belongs to are deleted.
pub(super) async fn add_up_spent(
    conn: &mut PgConnection,
    tenant: TenantId,
) -> Result<(), StoreError> {
    lock_budgets(conn, tenant.as_uuid()).await?;
    add_up(conn, tenant.as_uuid(), None).await?;
    Ok(())
}

/// Adds settled spending to a tenant's budgets in a transaction of its own, ahead of a deletion.
pub async fn settle_spent(conn: &mut PgConnection, tenant: TenantId) -> Result<(), StoreError> {
    let mut transaction = conn.begin().await?;
    add_up_spent(&mut transaction, tenant).await?;
    transaction.commit().await?;
    Ok(())
}

/// Returns the use of a session's budget. Only one run of a session is live, so no other
/// request is under way when its driver calls this.
pub async fn of_session(
    conn: &mut PgConnection,
    session_id: SessionId,
    budget: Budget,
) -> Result<BudgetUse, StoreError> {
    let row = sqlx::query!(
        r#"SELECT coalesce(sum(input_tokens + cache_creation_input_tokens
                               + cache_read_input_tokens + output_tokens), 0)::bigint AS "tokens!",
                  coalesce(sum(cost), 0)::bigint AS "cost!"
           FROM sessions WHERE id = $1 OR parent_session_id = $1"#,
        session_id.as_uuid(),
    )
    .fetch_one(conn)
    .await?;
    Ok(BudgetUse { scope: Scope::Session, budget, tokens: row.tokens, cost: row.cost })
}

/// The period of a tenant's budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Period {
    /// A UTC day.
    Day,
    /// All time.
    Total,
}

impl Period {
    /// The value in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Total => "total",
        }
    }
}

/// Sets a tenant's budget. Earlier spending counts.
pub async fn set(
    conn: &mut PgConnection,
    tenant: TenantId,
    period: Period,
    budget: Budget,
) -> Result<(), StoreError> {
    let mut transaction = conn.begin().await?;
    // Waits for running steps; later ones see the budget.
    sqlx::query!("LOCK TABLE requests IN SHARE MODE").execute(&mut *transaction).await?;
    lock_budgets(&mut transaction, tenant.as_uuid()).await?;
    add_up(&mut transaction, tenant.as_uuid(), None).await?;
    sqlx::query!(
        "INSERT INTO budgets AS b (tenant_id, period, max_tokens, max_cost, day, tokens, cost)
         SELECT $1, $2, $3, $4, today.day,
                coalesce(sum(r.input_tokens + r.cache_creation_input_tokens
                             + r.cache_read_input_tokens + r.output_tokens), 0),
                coalesce(sum(r.cost), 0)
         FROM (SELECT (now() AT TIME ZONE 'UTC')::date AS day) today
         LEFT JOIN (
             SELECT (created_at AT TIME ZONE 'UTC')::date AS day, input_tokens,
                    cache_creation_input_tokens, cache_read_input_tokens, output_tokens, cost
             FROM requests WHERE tenant_id = $1
             UNION ALL
             SELECT day, input_tokens, cache_creation_input_tokens, cache_read_input_tokens,
                    output_tokens, cost
             FROM deleted_usage WHERE tenant_id = $1
         ) r ON $2 = 'total' OR r.day >= today.day
         GROUP BY today.day
         ON CONFLICT (tenant_id, period)
             DO UPDATE SET max_tokens = excluded.max_tokens, max_cost = excluded.max_cost",
        tenant.as_uuid(),
        period.as_str(),
        budget.tokens,
        budget.cost,
    )
    .execute(&mut *transaction)
    .await?;
    transaction.commit().await?;
    Ok(())
}

/// Removes a budget. Returns false if there was none.
pub async fn remove(
    conn: &mut PgConnection,
    tenant: TenantId,
    period: Period,
) -> Result<bool, StoreError> {
    let mut transaction = conn.begin().await?;
    lock_budgets(&mut transaction, tenant.as_uuid()).await?;
    let done = sqlx::query!(
        "DELETE FROM budgets WHERE tenant_id = $1 AND period = $2",
        tenant.as_uuid(),
        period.as_str(),
    )
    .execute(&mut *transaction)
    .await?;
    // Without a budget no step turns reservations into spending.
    sqlx::query!(
        "DELETE FROM reservations WHERE tenant_id = $1
           AND NOT EXISTS (SELECT FROM budgets WHERE tenant_id = $1)",
        tenant.as_uuid(),
    )
    .execute(&mut *transaction)
    .await?;
    transaction.commit().await?;
    Ok(done.rows_affected() > 0)
}

/// Lists a tenant's budgets with their use.
pub async fn list(conn: &mut PgConnection, tenant: TenantId) -> Result<Vec<BudgetUse>, StoreError> {
    let mut transaction = conn.begin().await?;
    lock_budgets(&mut transaction, tenant.as_uuid()).await?;
    let uses = add_up(&mut transaction, tenant.as_uuid(), None).await?;
    transaction.commit().await?;
    Ok(uses)
}
