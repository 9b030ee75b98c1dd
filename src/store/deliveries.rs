//! The outbox of webhooks. A trigger on the table of events inserts the deliveries.

use std::time::Duration;

use jiff_sqlx::{Timestamp, ToSqlx as _};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{StoreError, unreadable};
use crate::domain::ids::{DeliveryId, TenantId, WebhookId};
use crate::domain::page::Slice;
use crate::domain::webhook::{Delivery, DeliveryState, WebhookEvent, WebhookSecret};

const TABLE: &str = "webhook_deliveries";

/// Time in which deliveries are kept and can be sent again.
const KEPT_DAYS: i32 = 30;
/// Maximum number of pending test deliveries of a webhook.
const MAX_TESTS: i64 = 20;
/// Rows deleted in one statement.
const SWEEP_BATCH: i64 = 1000;

/// A claimed delivery, which no other process sends meanwhile.
#[derive(Debug)]
pub struct DueDelivery {
    /// The ID.
    pub id: DeliveryId,
    /// The webhook.
    pub webhook_id: WebhookId,
    /// The number of this attempt, from 1.
    pub attempt: i32,
    /// The end of the claim.
    pub claimed_until: jiff::Timestamp,
    /// The body.
    pub body: String,
    /// The URL.
    pub url: String,
    /// The secrets that sign it: the current one and, for a while after a rotation, the previous
    /// one.
    pub secrets: Vec<WebhookSecret>,
}

/// Limits on concurrent deliveries.
#[derive(Debug, Clone, Copy)]
pub struct DeliveryLimits {
    /// Of one webhook.
    pub of_webhook: i64,
    /// Of one tenant.
    pub of_tenant: i64,
    /// Of all, in addition to those under way.
    pub more: i64,
}

/// Claims due deliveries, as far as the limits allow besides those under way. Tenants take turns,
/// and so do the webhooks of each tenant, so that slow or unreachable ones do not delay others. A
/// delivery that is not settled before its claim ends is sent again by another process.
pub async fn claim_due(
    conn: &mut PgConnection,
    under_way: &[(WebhookId, i64)],
    limits: DeliveryLimits,
    time: Duration,
) -> Result<Vec<DueDelivery>, StoreError> {
    let (busy, counts): (Vec<Uuid>, Vec<i64>) =
        under_way.iter().map(|(id, count)| (id.as_uuid(), *count)).unzip();
    let rows = sqlx::query_file!(
        "src/store/claim_due.sql",
        &busy,
        &counts,
        limits.of_webhook,
        limits.of_tenant,
        limits.more,
        time.as_secs_f64(),
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter()
        .map(|row| {
            let secrets = [Some(row.secret), row.old_secret].into_iter().flatten();
            let secrets: Result<Vec<_>, String> = secrets.map(TryInto::try_into).collect();
            Ok(DueDelivery {
                id: row.id.into(),
                webhook_id: row.webhook_id.into(),
                attempt: row.attempts,
                claimed_until: row.taken_until.to_jiff(),
                body: row.body,
                url: row.url,
                secrets: secrets.map_err(unreadable("webhooks", "secret"))?,
            })
        })
        .collect()
}

/// The consequence of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextAttempt {
    /// None: the delivery succeeded.
    Delivered,
    /// Another attempt, after a pause.
    After(Duration),
    /// None: the delivery failed permanently.
    Failed,
}

/// The outcome of an attempt to deliver.
#[derive(Debug, Clone, Copy)]
pub struct AttemptOutcome<'a> {
    /// The delivery.
    pub id: DeliveryId,
    /// The end of the claim, which identifies the attempt.
    pub claimed_until: jiff::Timestamp,
    /// The status that the receiver returned.
    pub status: Option<u16>,
    /// The cause of a failure.
    pub error: Option<&'a str>,
    /// The next attempt.
    pub next: NextAttempt,
}

/// Records the outcome of an attempt, unless another attempt has started since. The end of the
/// claim identifies the attempt: it is unique, while the number of an attempt starts again with a
/// replay.
pub async fn settle(
    conn: &mut PgConnection,
    outcome: AttemptOutcome<'_>,
) -> Result<(), StoreError> {
    let AttemptOutcome { id, claimed_until, status, error, next } = outcome;
    let (state, pause) = match next {
        NextAttempt::Delivered => (DeliveryState::Delivered, None),
        NextAttempt::After(pause) => (DeliveryState::Pending, Some(pause.as_secs_f64())),
        NextAttempt::Failed => (DeliveryState::Failed, None),
    };
    sqlx::query!(
        "UPDATE webhook_deliveries
         SET state = $3, last_status = $4, last_error = $5,
             next_attempt_at = now() + make_interval(secs => $6),
             ended_at = CASE WHEN $6::float8 IS NULL THEN now() END
         WHERE id = $1 AND next_attempt_at = $2 AND state = 'pending'",
        id.as_uuid(),
        claimed_until.to_sqlx() as _,
        state.as_str(),
        status.map(i32::from),
        error,
        pause,
    )
    .execute(conn)
    .await?;
    Ok(())
}

struct Row {
    id: Uuid,
    session_id: Option<Uuid>,
    event: String,
    state: String,
    attempts: i32,
    next_attempt_at: Option<Timestamp>,
    last_status: Option<i32>,
    last_error: Option<String>,
    created_at: Timestamp,
    ended_at: Option<Timestamp>,
}

impl TryFrom<Row> for Delivery {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let state = DeliveryState::parse(&row.state).ok_or(row.state);
        Ok(Self {
            id: row.id.into(),
            session_id: row.session_id.map(Into::into),
            event: row.event,
            state: state.map_err(unreadable(TABLE, "state"))?,
            attempts: row.attempts,
            next_attempt_at: row.next_attempt_at.map(Timestamp::to_jiff),
            last_status: row.last_status,
            last_error: row.last_error,
            created_at: row.created_at.to_jiff(),
            ended_at: row.ended_at.map(Timestamp::to_jiff),
        })
    }
}

/// A selection of deliveries.
#[derive(Debug, Clone, Copy)]
pub struct DeliverySelection {
    /// The owner.
    pub tenant: TenantId,
    /// The webhook.
    pub webhook_id: WebhookId,
    /// Only deliveries in this state.
    pub state: Option<DeliveryState>,
    /// The page.
    pub slice: Slice<DeliveryId>,
}

/// Lists deliveries, in the order of their IDs, which is the order of creation.
pub async fn list(
    conn: &mut PgConnection,
    selection: DeliverySelection,
) -> Result<Vec<Delivery>, StoreError> {
    let slice = selection.slice;
    let rows = sqlx::query_as!(
        Row,
        r#"SELECT id, session_id, event, state, attempts,
                  next_attempt_at AS "next_attempt_at: Timestamp", last_status, last_error,
                  created_at AS "created_at: Timestamp", ended_at AS "ended_at: Timestamp"
           FROM webhook_deliveries
           WHERE tenant_id = $1 AND webhook_id = $2 AND ($3::text IS NULL OR state = $3)
             AND ($4::uuid IS NULL OR CASE WHEN $5 THEN id > $4 ELSE id < $4 END)
           ORDER BY CASE WHEN $5 THEN id END, CASE WHEN NOT $5 THEN id END DESC
           LIMIT $6"#,
        selection.tenant.as_uuid(),
        selection.webhook_id.as_uuid(),
        selection.state.map(DeliveryState::as_str),
        slice.from.map(DeliveryId::as_uuid),
        slice.is_upwards,
        slice.limit,
    )
    .fetch_all(conn)
    .await?;
    slice.in_order(rows).into_iter().map(TryInto::try_into).collect()
}

/// Inserts a test delivery, if the webhook is enabled and has not too many pending ones.
pub async fn insert_test(
    conn: &mut PgConnection,
    tenant: TenantId,
    webhook_id: WebhookId,
    id: DeliveryId,
    body: &str,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "INSERT INTO webhook_deliveries (id, webhook_id, tenant_id, event, body)
         SELECT $1, id, tenant_id, $4, $5 FROM webhooks
         WHERE id = $2 AND tenant_id = $3 AND disabled IS NULL
           AND (SELECT count(*) FROM webhook_deliveries
                WHERE webhook_id = $2 AND state = 'pending' AND event = $4) < $6",
        id.as_uuid(),
        webhook_id.as_uuid(),
        tenant.as_uuid(),
        WebhookEvent::TEST,
        body,
        MAX_TESTS,
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// A selection of deliveries to send again.
#[derive(Debug, Clone, Copy)]
pub enum Replay {
    /// This delivery, however it ended.
    One(DeliveryId),
    /// All deliveries since a time that ended in this state.
    Since(jiff::Timestamp, DeliveryState),
}

/// Schedules settled deliveries again and returns their number.
pub async fn replay(
    conn: &mut PgConnection,
    tenant: TenantId,
    webhook_id: WebhookId,
    what: Replay,
) -> Result<u64, StoreError> {
    let (id, since) = match what {
        Replay::One(id) => (Some(id), None),
        Replay::Since(since, state) => (None, Some((since, state))),
    };
    let done = sqlx::query!(
        "UPDATE webhook_deliveries
         SET state = 'pending', attempts = 0, next_attempt_at = now(), ended_at = NULL
         WHERE tenant_id = $1 AND webhook_id = $2 AND state <> 'pending'
           AND ($3::uuid IS NULL OR id = $3)
           AND ($4::timestamptz IS NULL OR created_at >= $4)
           AND ($5::text IS NULL OR state = $5)",
        tenant.as_uuid(),
        webhook_id.as_uuid(),
        id.map(DeliveryId::as_uuid),
        since.map(|(since, _)| since.to_sqlx()) as _,
        since.map(|(_, state)| state.as_str()),
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// Deletes some old deliveries. Returns true if there may be more. Old deliveries that are still
/// pending belong to disabled webhooks.
pub async fn sweep(conn: &mut PgConnection) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "DELETE FROM webhook_deliveries WHERE id IN (
             SELECT id FROM webhook_deliveries
             WHERE created_at < now() - make_interval(days => $1)
             LIMIT $2 FOR UPDATE SKIP LOCKED)",
        KEPT_DAYS,
        SWEEP_BATCH,
    )
    .execute(conn)
    .await?;
    Ok(i64::try_from(done.rows_affected()).is_ok_and(|rows| rows == SWEEP_BATCH))
}

#[cfg(test)]
mod tests;
