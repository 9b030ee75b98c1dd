//! A run to be accepted as the values that its statement stores. It borrows nothing, so that the task
//! of another request can write it.

use super::new_run::NewRun;
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::ids::{EventId, RunId, SessionId, TenantId, WorkerId};
use crate::store::{StoreError, unreadable};

/// A run to be accepted, ready to be written.
#[derive(Debug)]
pub struct EncodedAccept {
    pub(super) session_id: SessionId,
    pub(super) tenant: TenantId,
    pub(super) run_id: RunId,
    pub(super) message_id: String,
    pub(super) input: String,
    pub(super) options: String,
    pub(super) idempotency_key: Option<String>,
    pub(super) client_message_id: Option<String>,
    pub(super) fingerprint: Vec<u8>,
    pub(super) event: NewEvent,
    pub(super) may_wait: bool,
    pub(super) versions: Option<Vec<i64>>,
    pub(super) worker: Option<WorkerId>,
    /// The event of a run that starts.
    pub(super) running: NewEvent,
    /// The id of the event of its first model request.
    pub(super) request_event: EventId,
}

impl EncodedAccept {
    /// Encodes a run to be accepted.
    pub fn of(new: &NewRun<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            session_id: new.session_id,
            tenant: new.tenant,
            run_id: new.id,
            message_id: new.message_id.to_owned(),
            input: new.input.to_owned(),
            options: serde_json::to_string(new.options).map_err(unreadable("runs", "options"))?,
            idempotency_key: new.idempotency_key.map(str::to_owned),
            client_message_id: new.client_message_id.map(str::to_owned),
            fingerprint: new.fingerprint.to_vec(),
            event: new.event.clone(),
            may_wait: new.may_wait,
            versions: new.versions.map(<[i64]>::to_vec),
            worker: new.worker,
            running: NewEvent::new(&EventBody::StatusRunning { attempt: 1 }),
            request_event: new.request_event,
        })
    }

    pub(super) fn size(&self) -> usize {
        self.input.len() + self.options.len() + self.event.body.len()
    }
}
