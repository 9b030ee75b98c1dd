//! The result of the statement that accepts messages, and the accepted run.

use std::time::Duration;

use jiff_sqlx::Timestamp;
use uuid::Uuid;

use super::encoded::EncodedAccept;
use super::new_run::{AcceptedRun, NewRun};
use crate::domain::claim::{Claimed, Fence};
use crate::domain::event::{EventBody, NewEvent, Stamp};
use crate::domain::ids::{EventId, WorkerId};
use crate::store::StoreError;
use crate::store::claim::permissions;
use crate::store::events::encode;
use crate::store::model_settings::settings_of;

/// A row of the statement. Most columns are empty for a message that was not accepted.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "the columns of a statement")]
pub(super) struct Row {
    pub(super) is_locked: bool,
    pub(super) seq: Option<i64>,
    pub(super) queued: Option<i32>,
    pub(super) is_begun: bool,
    pub(super) model: Option<String>,
    pub(super) workspace: Option<String>,
    pub(super) settings: Option<String>,
    pub(super) model_settings: Option<String>,
    pub(super) parent_session_id: Option<Uuid>,
    pub(super) last_message_seq: Option<i32>,
    pub(super) is_fork: bool,
    pub(super) permission_mode: Option<String>,
    pub(super) remembered: Option<String>,
    pub(super) now: Timestamp,
    pub(super) is_budgeted: bool,
}

/// What the database knows of a message that was accepted.
#[derive(Debug)]
pub struct WrittenAccept {
    seq: i64,
    running: NewEvent,
    request_event: EventId,
    row: Row,
}

impl WrittenAccept {
    pub(super) fn new(seq: i64, row: Row, accept: &EncodedAccept) -> Self {
        let (running, request_event) = (accept.running.clone(), accept.request_event);
        Self { seq, running, request_event, row }
    }

    /// The accepted run, with its events encoded for their readers.
    pub(super) fn into_run(self, new: &NewRun<'_>) -> Result<AcceptedRun, StoreError> {
        let Self { seq, running, request_event, row } = self;
        let first = Stamp {
            session_id: new.session_id,
            run_id: Some(new.id),
            seq,
            created_at: row.now.to_jiff(),
        };
        let mut events = vec![new.event.clone()];
        if row.is_begun {
            let of_message = new.options.model_settings.as_ref().map(|it| it.model.clone());
            let model = of_message.or_else(|| row.model.clone()).unwrap_or_default();
            let request = EventBody::ModelRequestStart { model, tool_use_id: None };
            events.extend([running, NewEvent::with_id(request_event.to_string(), &request)]);
        }
        let frames = encode(&events, &first);
        let (created_at, queued) = (first.created_at, row.queued.unwrap_or_default());
        let begun = match new.worker {
            Some(worker) if row.is_begun => Some(claimed(new, worker, request_event, row)?),
            _ => None,
        };
        Ok(AcceptedRun { frames, created_at, queued, begun })
    }
}

fn claimed(
    new: &NewRun<'_>,
    worker: WorkerId,
    request_event: EventId,
    row: Row,
) -> Result<Claimed, StoreError> {
    let (settings, model_settings) =
        settings_of(row.settings.as_deref().unwrap_or_default(), row.model_settings.as_deref())?;
    Ok(Claimed {
        fence: Fence { run_id: new.id, attempt: 1, worker },
        tenant: new.tenant,
        session_id: new.session_id,
        settings,
        model_settings,
        workspace: row.workspace,
        parent_session: row.parent_session_id.map(Into::into),
        is_fork: row.is_fork,
        message_id: new.message_id.to_owned(),
        input: new.input.to_owned(),
        options: new.options.clone(),
        last_message_seq: row.last_message_seq.unwrap_or_default(),
        steps: 0,
        takeovers: 0,
        elapsed: Duration::ZERO,
        is_cancelled: false,
        permissions: permissions(
            row.permission_mode.as_deref(),
            row.remembered.as_deref().unwrap_or_default(),
        )?,
        is_budgeted: row.is_budgeted,
        begun: Some(request_event),
    })
}
