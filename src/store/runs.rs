//! Runs as clients see them, and their cancellation.

use jiff_sqlx::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

use super::{StoreError, unreadable};
use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::domain::run::{Outcome, Run, RunStatus, Usage};

const TABLE: &str = "runs";

struct Row {
    id: Uuid,
    session_id: Uuid,
    message_id: String,
    status: String,
    accepted_seq: i64,
    queue_position: Option<i64>,
    outcome: Option<String>,
    model_requests: i32,
    input_tokens: i64,
    cache_creation_input_tokens: i64,
    cache_read_input_tokens: i64,
    output_tokens: i64,
    created_at: Timestamp,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
}

impl TryFrom<Row> for Run {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        Ok(Self {
            id: row.id.into(),
            session_id: row.session_id.into(),
            message_id: row.message_id,
            status: RunStatus::parse(&row.status)
                .ok_or_else(|| unreadable(TABLE, "status")(&row.status))?,
            accepted_seq: row.accepted_seq,
            queue_position: row.queue_position,
            outcome: row
                .outcome
                .map(|text| serde_json::from_str(&text).map_err(unreadable(TABLE, "outcome")))
                .transpose()?,
            model_requests: row.model_requests,
            usage: Usage {
                input_tokens: row.input_tokens,
                cache_creation_input_tokens: row.cache_creation_input_tokens,
                cache_read_input_tokens: row.cache_read_input_tokens,
                output_tokens: row.output_tokens,
            },
            created_at: row.created_at.to_jiff(),
            started_at: row.started_at.map(Timestamp::to_jiff),
            finished_at: row.finished_at.map(Timestamp::to_jiff),
        })
    }
}

/// Which runs of a session to read.
#[derive(Debug, Clone, Copy)]
pub struct Filter {
    /// The owner.
    pub tenant: TenantId,
    /// The session.
    pub session_id: SessionId,
    /// Only this one.
    pub only: Option<RunId>,
    /// Only those that stand here.
    pub status: Option<RunStatus>,
    /// Only those that were accepted after this event.
    pub after: i64,
    /// At most so many.
    pub limit: i64,
}

/// Lists the runs of a session, oldest first.
pub async fn list(conn: &mut PgConnection, filter: Filter) -> Result<Vec<Run>, StoreError> {
    let rows = sqlx::query_as!(
        Row,
        r#"SELECT r.id, r.session_id, r.message_id, r.status, r.accepted_seq,
                  CASE WHEN r.status = 'queued' THEN (
                      SELECT count(*) FROM runs earlier
                      WHERE earlier.session_id = r.session_id AND earlier.status = 'queued'
                        AND earlier.accepted_seq <= r.accepted_seq) END AS queue_position,
                  r.outcome::text, r.model_requests,
                  r.input_tokens, r.cache_creation_input_tokens, r.cache_read_input_tokens,
                  r.output_tokens, r.created_at AS "created_at: Timestamp",
                  r.started_at AS "started_at: Timestamp",
                  r.finished_at AS "finished_at: Timestamp"
           FROM runs r
           WHERE r.session_id = $1 AND r.tenant_id = $2
             AND ($3::uuid IS NULL OR r.id = $3)
             AND ($4::text IS NULL OR r.status = $4)
             AND r.accepted_seq > $5
           ORDER BY r.accepted_seq
           LIMIT $6"#,
        filter.session_id.as_uuid(),
        filter.tenant.as_uuid(),
        filter.only.map(RunId::as_uuid),
        filter.status.map(RunStatus::as_str),
        filter.after,
        filter.limit,
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Run::try_from).collect()
}

/// Finds one run of a session.
pub async fn find(
    conn: &mut PgConnection,
    tenant: TenantId,
    session_id: SessionId,
    id: RunId,
) -> Result<Option<Run>, StoreError> {
    let filter = Filter { tenant, session_id, only: Some(id), status: None, after: -1, limit: 1 };
    Ok(list(conn, filter).await?.pop())
}

/// What a request to cancel met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancellation {
    /// A worker holds the run and has been asked to stop.
    Requested,
    /// A worker holds the run and was asked before.
    Repeated,
    /// The run has not begun and can be settled at once.
    Queued,
    /// There is nothing to stop.
    Settled,
}

/// Asks for a run to be cancelled. It, and its session, stay locked for the rest of the caller's
/// transaction, so that no worker takes it up or settles it in between. The session is locked
/// first, as everywhere.
pub async fn request_cancel(
    conn: &mut PgConnection,
    tenant: TenantId,
    session_id: SessionId,
    id: RunId,
) -> Result<Option<Cancellation>, StoreError> {
    let row = sqlx::query!(
        r#"WITH locked AS (
               SELECT id FROM sessions WHERE id = $2 AND tenant_id = $3 FOR UPDATE
           )
           UPDATE runs SET cancel_requested_at = coalesce(cancel_requested_at, now())
           FROM locked
           WHERE runs.id = $1 AND session_id = locked.id
           RETURNING status, cancel_requested_at = now() AS "is_first!""#,
        id.as_uuid(),
        session_id.as_uuid(),
        tenant.as_uuid(),
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| match RunStatus::parse(&row.status) {
        Some(RunStatus::Running | RunStatus::RequiresAction) if row.is_first => {
            Cancellation::Requested
        }
        Some(RunStatus::Running | RunStatus::RequiresAction) => Cancellation::Repeated,
        Some(RunStatus::Queued) => Cancellation::Queued,
        Some(RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled) | None => {
            Cancellation::Settled
        }
    }))
}

/// Settles a run that has never begun. Its message never enters the history.
pub async fn cancel_queued(
    conn: &mut PgConnection,
    id: RunId,
    outcome: &Outcome,
) -> Result<bool, StoreError> {
    let outcome = serde_json::to_string(outcome).map_err(unreadable(TABLE, "outcome"))?;
    let done = sqlx::query!(
        "WITH run AS (
             UPDATE runs SET status = 'cancelled', finished_at = now(), outcome = ($2::text)::json
             WHERE id = $1 AND status = 'queued'
             RETURNING session_id
         )
         UPDATE sessions s SET queued = s.queued - 1 FROM run WHERE s.id = run.session_id",
        id.as_uuid(),
        outcome,
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() > 0)
}
