//! Accepting a message: the run, its place in the queue and its event, in one statement; and the
//! run's beginning with it, when nothing stands in its way.

use std::time::Duration;

use jiff_sqlx::Timestamp;
use sqlx::PgConnection;
use sqlx::error::ErrorKind;
use uuid::Uuid;

use super::claim::permissions;
use super::{StoreError, unreadable};
use crate::domain::claim::{Claimed, Fence};
use crate::domain::event::{EventBody, Frame, NewEvent, Stamp};
use crate::domain::ids::{EventId, RunId, SessionId, TenantId, WorkerId};
use crate::domain::run::RunOptions;

/// Messages of one session that may wait.
pub const MAX_QUEUED: i32 = 16;

/// A run to be accepted.
#[derive(Debug, Clone, Copy)]
pub struct NewRun<'a> {
    /// The id.
    pub id: RunId,
    /// The owner of the session.
    pub tenant: TenantId,
    /// The session.
    pub session_id: SessionId,
    /// The id of the user message.
    pub message_id: &'a str,
    /// The blocks of the user message.
    pub input: &'a str,
    /// What the message asks of its run.
    pub options: &'a RunOptions,
    /// The client's `Idempotency-Key`.
    pub idempotency_key: Option<&'a str>,
    /// The client's own id of the message.
    pub client_message_id: Option<&'a str>,
    /// A hash of the request, to tell a repeated post from another one with the same key.
    pub fingerprint: &'a [u8],
    /// The `user.message` event.
    pub event: &'a NewEvent,
    /// Who takes the run up at once, if the session is idle.
    pub worker: Option<WorkerId>,
    /// Whether it may wait behind other runs of its session.
    pub may_wait: bool,
    /// The numbers of which one has to be that of the session's newest event; none if any will do.
    pub versions: Option<&'a [i64]>,
}

/// How a message was met.
#[derive(Debug)]
pub enum Accepted {
    /// It has a run.
    Run(Box<AcceptedRun>),
    /// The session has as many waiting messages as it may, or it is busy and the message may not
    /// wait, or it is not of an expected version, or it is put away, or it does not exist.
    Refused,
    /// A run was accepted before under the same key or message id.
    Repeated,
}

/// A run that was accepted.
#[derive(Debug)]
pub struct AcceptedRun {
    /// Its events, to be published.
    pub frames: Vec<Frame>,
    /// When it was accepted.
    pub created_at: jiff::Timestamp,
    /// How many runs of the session wait, this one included; 0 if it has begun.
    pub queued: i32,
    /// The run in the hands of the worker that was named, if it has begun.
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
    last_message_seq: i32,
    permission_mode: Option<String>,
    remembered: String,
    is_budgeted: bool,
}

/// Accepts a message, or says why not. The session stays locked for the rest of the caller's
/// transaction, if there is one; it must be rolled back unless the message has a run then.
pub async fn accept(conn: &mut PgConnection, new: &NewRun<'_>) -> Result<Accepted, StoreError> {
    let options = serde_json::to_string(new.options).map_err(unreadable("runs", "options"))?;
    let running = NewEvent::new(&EventBody::StatusRunning { attempt: 1 });
    let span = EventId::new();
    let rows = sqlx::query_file_as!(
        Row,
        "src/store/accept.sql",
        new.session_id.as_uuid(),
        new.tenant.as_uuid(),
        MAX_QUEUED,
        new.id.as_uuid(),
        new.message_id,
        new.input,
        options,
        new.idempotency_key,
        new.client_message_id,
        new.fingerprint,
        new.event.kind,
        new.event.body,
        new.worker.map(WorkerId::as_uuid),
        running.id,
        running.kind,
        running.body,
        span.to_string(),
        new.may_wait,
        new.versions as _,
    )
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

/// A run that was accepted before.
#[derive(Debug)]
pub struct Earlier {
    /// The run.
    pub run_id: RunId,
    /// Its session.
    pub session_id: SessionId,
    /// The hash of the request that made it.
    pub fingerprint: Vec<u8>,
}

/// Finds the run that was accepted under a key or a message id.
pub async fn find_earlier(
    conn: &mut PgConnection,
    tenant: TenantId,
    session_id: SessionId,
    idempotency_key: Option<&str>,
    client_message_id: Option<&str>,
) -> Result<Option<Earlier>, StoreError> {
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
    Ok(row.map(|row| Earlier {
        run_id: row.id.into(),
        session_id: row.session_id.into(),
        fingerprint: row.fingerprint,
    }))
}
