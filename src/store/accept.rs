//! Accepting a message: the run, its place in the queue and its event, in one statement.

use jiff_sqlx::Timestamp;
use sqlx::PgConnection;
use sqlx::error::ErrorKind;

use super::{StoreError, unreadable};
use crate::domain::event::{Frame, NewEvent, Stamp};
use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::domain::run::RunOptions;

/// Messages of one session that may wait.
pub const MAX_QUEUED: i32 = 16;

/// A run to be accepted.
#[derive(Debug)]
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
}

/// How a message was met.
#[derive(Debug)]
pub enum Accepted {
    /// It has a run.
    Run {
        /// Its event, to be published.
        frame: Box<Frame>,
        /// When it was accepted.
        created_at: jiff::Timestamp,
        /// How many runs of the session wait, this one included.
        queued: i32,
    },
    /// The session has as many waiting messages as it may, or it does not exist.
    Refused,
    /// A run was accepted before under the same key or message id.
    Repeated,
}

/// Accepts a message, or says why not. The connection must not be in a transaction.
pub async fn accept(conn: &mut PgConnection, new: &NewRun<'_>) -> Result<Accepted, StoreError> {
    let options = serde_json::to_string(new.options).map_err(unreadable("runs", "options"))?;
    let row = sqlx::query!(
        r#"WITH session AS (
               UPDATE sessions
               SET last_seq = last_seq + 1, queued = queued + 1, updated_at = now()
               WHERE id = $1 AND tenant_id = $2 AND queued < $3
               RETURNING id, tenant_id, last_seq, queued
           ), run AS (
               INSERT INTO runs (id, session_id, tenant_id, accepted_seq, message_id, input,
                                 options, idempotency_key, client_message_id, fingerprint)
               SELECT $4, s.id, s.tenant_id, s.last_seq, $5, ($6::text)::json,
                      ($7::text)::json, $8, $9, $10
               FROM session s
           ), event AS (
               INSERT INTO events (session_id, seq, tenant_id, run_id, event_id, type, body)
               SELECT s.id, s.last_seq, s.tenant_id, $4, $5, $11, ($12::text)::json FROM session s
           )
           SELECT last_seq, queued, now() AS "now!: Timestamp" FROM session"#,
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
    )
    .fetch_optional(conn)
    .await;
    let row = match row {
        Err(sqlx::Error::Database(error)) if error.kind() == ErrorKind::UniqueViolation => {
            return Ok(Accepted::Repeated);
        }
        row => row?,
    };
    let Some(row) = row else {
        return Ok(Accepted::Refused);
    };
    let stamp = Stamp {
        session_id: new.session_id,
        run_id: Some(new.id),
        seq: row.last_seq,
        created_at: row.now.to_jiff(),
    };
    let NewEvent { id, kind, body } = new.event;
    let frame = Frame::encode(id.clone(), (*kind).to_owned(), body, &stamp);
    let created_at = stamp.created_at;
    Ok(Accepted::Run {
        frame: Box::new(frame),
        created_at,
        queued: row.queued,
    })
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
         WHERE tenant_id = $1
           AND (idempotency_key = $3 OR (session_id = $2 AND client_message_id = $4))
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
