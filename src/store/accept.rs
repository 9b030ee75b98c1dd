//! Accepting a message: the run, its position in the queue and its event in one statement. If the
//! session is idle and a worker has a free slot, the same statement starts the run.

use std::time::Duration;

use jiff_sqlx::Timestamp;
use sqlx::PgConnection;
use sqlx::error::ErrorKind;
use uuid::Uuid;

use super::claim::permissions;
use super::{StoreError, unreadable};
use crate::domain::claim::{Claimed, Fence, LEASE};
use crate::domain::event::{EventBody, Frame, NewEvent, Stamp};
use crate::domain::ids::{EventId, RunId, SessionId, TenantId, WorkerId};
use crate::domain::run_options::RunOptions;

/// Maximum number of queued messages of one session.
pub const MAX_QUEUED: i32 = 16;

/// A run to be accepted.
#[derive(Debug, Clone, Copy)]
pub struct NewRun<'a> {
    /// The ID.
    pub id: RunId,
    /// The owner of the session.
    pub tenant: TenantId,
    /// The session.
    pub session_id: SessionId,
    /// The ID of the user message.
    pub message_id: &'a str,
    /// The blocks of the user message.
    pub input: &'a str,
    /// The options of the run.
    pub options: &'a RunOptions,
    /// The client's `Idempotency-Key`.
    pub idempotency_key: Option<&'a str>,
    /// The client's own ID of the message.
    pub client_message_id: Option<&'a str>,
    /// A hash of the request, which distinguishes a repeated post from a different one with the
    /// same key.
    pub fingerprint: &'a [u8],
    /// The `user.message` event.
    pub event: &'a NewEvent,
    /// The worker that starts the run at once if the session is idle.
    pub worker: Option<WorkerId>,
    /// True if the run may wait in the queue of its session.
    pub may_wait: bool,
    /// Session versions (numbers of the newest event) of which one must match; `None` if any will
    /// do.
    pub versions: Option<&'a [i64]>,
}

/// The outcome of an accept.
#[derive(Debug)]
pub enum Accepted {
    /// The message has a run.
    Run(Box<AcceptedRun>),
    /// The queue of the session is full, or the session is busy and the message may not wait, or
    /// has another version than expected, or is archived, or does not exist.
    Refused,
    /// A run was accepted before with the same key or message ID.
    Repeated,
}

/// An accepted run.
#[derive(Debug)]
pub struct AcceptedRun {
    /// Its events, to be published.
    pub frames: Vec<Frame>,
    /// The time of acceptance.
    pub created_at: jiff::Timestamp,
    /// Number of queued runs of the session, including this one; 0 if the run has started.
    pub queued: i32,
    /// The run as claimed by the worker, if it has started.
    pub begun: Option<Claimed>,
}

struct Row {
    seq: i64,
    event_id: String,
    kind: String,
    body: String,
    created_at: Timestamp,
    queued: i32,
    is_begun: bool,
    settings: String,
    workspace: Option<String>,
    parent_session_id: Option<Uuid>,
    is_fork: bool,
    last_message_seq: i32,
    permission_mode: Option<String>,
    remembered: String,
    is_budgeted: bool,
}

/// Accepts a message. The session stays locked until the end of the caller's transaction, if there
/// is one; roll the transaction back unless the outcome is [`Accepted::Run`].
pub async fn accept(conn: &mut PgConnection, new: &NewRun<'_>) -> Result<Accepted, StoreError> {
    let options = serde_json::to_string(new.options).map_err(unreadable("runs", "options"))?;
    let running = NewEvent::new(&EventBody::StatusRunning { attempt: 1 });
    let span = EventId::new();
    let rows = query_file_named!(Row, "src/store/accept.sql", {
        session_id: new.session_id.as_uuid(), tenant_id: new.tenant.as_uuid(),
        run_id: new.id.as_uuid(), message_id: new.message_id, input: new.input,
        options: options, idempotency_key: new.idempotency_key,
        client_message_id: new.client_message_id, fingerprint: new.fingerprint,
        event_type: new.event.kind, event_body: new.event.body,
        max_queued: MAX_QUEUED, may_wait: new.may_wait, versions: new.versions as _,
        worker: new.worker.map(WorkerId::as_uuid), lease_seconds: LEASE.as_secs_f64(),
        running_event_id: running.id, running_event_type: running.kind,
        running_event_body: running.body, request_event_id: span.to_string(),
    })
    .fetch_all(conn)
    .await;
    match rows {
        Err(sqlx::Error::Database(error)) if error.kind() == ErrorKind::UniqueViolation => {
            Ok(Accepted::Repeated)
        }
        rows => accepted(new, span, rows?),
    }
}

fn accepted(new: &NewRun<'_>, span: EventId, rows: Vec<Row>) -> Result<Accepted, StoreError> {
    let Some(first) = rows.first() else {
        return Ok(Accepted::Refused);
    };
    let created_at = first.created_at.to_jiff();
    let queued = first.queued;
    let begun = match new.worker {
        Some(worker) if first.is_begun => Some(Claimed {
            fence: Fence { run_id: new.id, attempt: 1, worker },
            session_id: new.session_id,
            settings: serde_json::from_str(&first.settings)
                .map_err(unreadable("sessions", "settings"))?,
            workspace: first.workspace.clone(),
            parent_session: first.parent_session_id.map(Into::into),
            is_fork: first.is_fork,
            message_id: new.message_id.to_owned(),
            input: new.input.to_owned(),
            options: new.options.clone(),
            last_message_seq: first.last_message_seq,
            steps: 0,
            takeovers: 0,
            elapsed: Duration::ZERO,
            is_cancelled: false,
            permissions: permissions(first.permission_mode.as_deref(), &first.remembered)?,
            is_budgeted: first.is_budgeted,
            begun: Some(span),
        }),
        _ => None,
    };
    let frame = |row: Row| {
        let stamp = Stamp {
            session_id: new.session_id,
            run_id: Some(new.id),
            seq: row.seq,
            created_at: row.created_at.to_jiff(),
        };
        Frame::encode(row.event_id, row.kind, &row.body, &stamp)
    };
    let frames = rows.into_iter().map(frame).collect();
    Ok(Accepted::Run(Box::new(AcceptedRun { frames, created_at, queued, begun })))
}

/// A run that was accepted earlier.
#[derive(Debug)]
pub struct EarlierRun {
    /// The run.
    pub run_id: RunId,
    /// Its session.
    pub session_id: SessionId,
    /// The hash of the request that created it.
    pub fingerprint: Vec<u8>,
}

/// Finds the run that was accepted with an idempotency key or a client message ID.
pub async fn find_earlier(
    conn: &mut PgConnection,
    tenant: TenantId,
    session_id: SessionId,
    idempotency_key: Option<&str>,
    client_message_id: Option<&str>,
) -> Result<Option<EarlierRun>, StoreError> {
    let row = sqlx::query!(
        "SELECT id, session_id, fingerprint FROM runs
         WHERE tenant_id = $1 AND session_id = $2
           AND (idempotency_key = $3 OR client_message_id = $4)
         ORDER BY idempotency_key = $3 DESC NULLS LAST
         LIMIT 1",
        tenant.as_uuid(),
        session_id.as_uuid(),
        idempotency_key,
        client_message_id,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| EarlierRun {
        run_id: row.id.into(),
        session_id: row.session_id.into(),
        fingerprint: row.fingerprint,
    }))
}
