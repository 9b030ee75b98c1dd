//! The statements that accept messages: one for a single message, one for those of several sessions.

use jiff_sqlx::Timestamp;
use sqlx::PgConnection;
use sqlx::error::ErrorKind;

use super::columns::AcceptColumns;
use super::encoded::EncodedAccept;
use super::new_run::{Accepted, MAX_QUEUED, NewRun};
use super::written::{Row, WrittenAccept};
use crate::domain::claim::LEASE;
use crate::domain::ids::{SessionId, WorkerId};
use crate::store::StoreError;
use crate::store::group_commit::GroupWrite;

/// What became of a message.
#[derive(Debug)]
pub enum AcceptStatus {
    /// It was accepted.
    Written(Box<WrittenAccept>),
    /// The session does not accept it; nothing was written.
    Refused,
    /// Another statement has just accepted a run with the same key or message ID.
    Repeated,
    /// Another transaction has locked the session, or the session does not exist; nothing was written.
    Skipped,
}

impl AcceptStatus {
    fn of(row: Row, accept: &EncodedAccept) -> Self {
        match row.seq {
            None if row.is_locked => Self::Refused,
            None => Self::Skipped,
            Some(seq) => Self::Written(Box::new(WrittenAccept::new(seq, row, accept))),
        }
    }

    /// The outcome of a message that was not skipped.
    pub fn into_accepted(self, new: &NewRun<'_>) -> Result<Accepted, StoreError> {
        Ok(match self {
            Self::Written(written) => Accepted::Run(Box::new(written.into_run(new)?)),
            Self::Refused | Self::Skipped => Accepted::Refused,
            Self::Repeated => Accepted::Repeated,
        })
    }
}

impl GroupWrite for EncodedAccept {
    type Written = AcceptStatus;

    /// With one, a message would wait for the commit of those before it.
    const STATEMENTS: usize = 2;

    fn session_id(&self) -> SessionId {
        self.session_id
    }

    fn size(&self) -> usize {
        self.size()
    }

    async fn write_all(
        conn: &mut PgConnection,
        accepts: &[&Self],
    ) -> Result<Vec<AcceptStatus>, StoreError> {
        match accepts {
            [alone] => Ok(vec![write_alone(conn, alone).await?]),
            accepts => write_group(conn, accepts).await,
        }
    }
}

/// Accepts a message, as soon as other transactions have released its session.
pub(super) async fn write_alone(
    conn: &mut PgConnection,
    accept: &EncodedAccept,
) -> Result<AcceptStatus, StoreError> {
    let row = query_file_named!(Row, "src/store/accept.sql", {
        session_id: accept.session_id.as_uuid(), tenant_id: accept.tenant.as_uuid(),
        run_id: accept.run_id.as_uuid(), message_id: accept.message_id, input: accept.input,
        options: accept.options, idempotency_key: accept.idempotency_key.as_deref(),
        client_message_id: accept.client_message_id.as_deref(),
        fingerprint: accept.fingerprint.as_slice(), event_type: accept.event.kind,
        event_body: accept.event.body, max_queued: MAX_QUEUED, may_wait: accept.may_wait,
        versions: accept.versions.as_deref() as _,
        worker: accept.worker.map(WorkerId::as_uuid), lease_seconds: LEASE.as_secs_f64(),
        running_event_id: accept.running.id, running_event_type: accept.running.kind,
        running_event_body: accept.running.body,
        request_event_id: accept.request_event.to_string(),
    })
    .fetch_optional(conn)
    .await;
    match row {
        Err(sqlx::Error::Database(error)) if error.kind() == ErrorKind::UniqueViolation => {
            Ok(AcceptStatus::Repeated)
        }
        row => Ok(row?.map_or(AcceptStatus::Refused, |row| AcceptStatus::of(row, accept))),
    }
}

/// Accepts messages of different sessions. Returns what became of each, in their order. An error
/// concerns all of them.
pub(in crate::store) async fn write_group(
    conn: &mut PgConnection,
    accepts: &[&EncodedAccept],
) -> Result<Vec<AcceptStatus>, StoreError> {
    let columns = AcceptColumns::of(accepts);
    // All of them differ only in their ids.
    let running = accepts.first().map(|accept| &accept.running);
    let rows = query_file_named!(Row, "src/store/accept_group.sql", {
        session_ids: &columns.session_ids, tenant_ids: &columns.tenant_ids,
        run_ids: &columns.run_ids, message_ids: &columns.message_ids as _,
        inputs: &columns.inputs as _, options: &columns.options as _,
        idempotency_keys: &columns.idempotency_keys as _,
        client_message_ids: &columns.client_message_ids as _,
        fingerprints: &columns.fingerprints as _, event_types: &columns.event_types as _,
        event_bodies: &columns.event_bodies as _, may_wait: &columns.may_wait,
        versions: &columns.versions as _, workers: &columns.workers as _,
        running_event_ids: &columns.running_event_ids as _,
        request_event_ids: &columns.request_event_ids,
        running_event_type: running.map(|event| event.kind),
        running_event_body: running.map(|event| event.body.as_str()),
        lease_seconds: LEASE.as_secs_f64(), max_queued: MAX_QUEUED,
    })
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().zip(accepts).map(|(row, accept)| AcceptStatus::of(row, accept)).collect())
}
