//! Extracts of a session's rows. Long texts are reduced to hashes, so that a long history is
//! verified in little memory.

use std::collections::HashMap;

use super::body::Body;
use super::parts::{Hash, Parts};
use super::requests::RequestFacts;
use crate::domain::ids::{RunId, SessionId};
use crate::domain::message::Role;
use crate::domain::permission::Awaits;
use crate::domain::run_status::RunStatus;
use crate::domain::stop_reason::ModelStop;
use crate::domain::tool::CallState;
use crate::domain::usage::Usage;

/// A session with all of its rows.
#[derive(Debug)]
pub(super) struct Facts {
    /// The time of the read, by the database's clock.
    pub(super) now: jiff::Timestamp,
    pub(super) session: SessionFacts,
    pub(super) runs: Runs,
    /// By run.
    pub(super) requests: HashMap<RunId, RequestFacts>,
    /// By position, including inherited messages.
    pub(super) messages: Vec<MessageFacts>,
    /// By message, and by position in the message.
    pub(super) calls: Vec<CallFacts>,
    /// By number.
    pub(super) events: Vec<EventFacts>,
}

/// Runs in the order of acceptance.
#[derive(Debug)]
pub(super) struct Runs {
    all: Vec<RunFacts>,
    places: HashMap<RunId, usize>,
}

impl From<Vec<RunFacts>> for Runs {
    fn from(all: Vec<RunFacts>) -> Self {
        let places = all.iter().enumerate().map(|(place, run)| (run.id, place)).collect();
        Self { all, places }
    }
}

impl Runs {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, RunFacts> {
        self.all.iter()
    }

    pub(super) fn find(&self, id: RunId) -> Option<&RunFacts> {
        self.places.get(&id).and_then(|place| self.all.get(*place))
    }

    /// Returns whether the run may still write.
    pub(super) fn is_live(&self, id: RunId) -> bool {
        self.find(id).is_some_and(RunFacts::is_live)
    }
}

#[derive(Debug)]
pub(super) struct SessionFacts {
    pub(super) id: SessionId,
    pub(super) last_seq: i64,
    pub(super) last_message_seq: i32,
    pub(super) queued: i32,
    pub(super) active_run_id: Option<RunId>,
    pub(super) usage: Usage,
    pub(super) cost: Option<i64>,
    /// Unreadable columns, and the reasons.
    pub(super) unreadable: Vec<String>,
}

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "facts, each of its own")]
pub(super) struct RunFacts {
    pub(super) id: RunId,
    pub(super) has_tenant: bool,
    /// `None` for a status that this version does not know.
    pub(super) status: Option<RunStatus>,
    pub(super) accepted_seq: i64,
    pub(super) message_id: String,
    /// A hash of its message.
    pub(super) input: Hash,
    /// A hash of its message, in the form of an event.
    pub(super) announced: Hash,
    pub(super) attempt: i32,
    pub(super) has_lease: bool,
    /// The time at which a waiting run becomes claimable, and whether that time is long past.
    pub(super) wake: Option<(jiff::Timestamp, bool)>,
    /// The expiry of its lease, if that is so long ago that no worker can hold it.
    pub(super) abandoned_at: Option<jiff::Timestamp>,
    pub(super) has_outcome: bool,
    pub(super) has_finished: bool,
    pub(super) model_requests: i32,
    pub(super) usage: Usage,
    pub(super) cost: Option<i64>,
    /// The number of its newest request.
    pub(super) last_request: i32,
    /// True if part of a budget is reserved for a request of it.
    pub(super) has_reservation: bool,
    pub(super) unreadable: Vec<String>,
}

impl RunFacts {
    pub(super) fn is_live(&self) -> bool {
        matches!(self.status, Some(RunStatus::Running | RunStatus::RequiresAction))
    }

    pub(super) fn is_settled(&self) -> bool {
        self.status.is_some_and(RunStatus::is_terminal)
    }
}

#[derive(Debug)]
pub(super) struct MessageFacts {
    pub(super) seq: i32,
    /// True if it belongs to another session, with which it is verified.
    pub(super) is_inherited: bool,
    pub(super) run_id: RunId,
    pub(super) has_tenant: bool,
    pub(super) attempt: i32,
    pub(super) role: Role,
    pub(super) message_id: String,
    pub(super) stop: Option<ModelStop>,
    /// A hash of the whole content.
    pub(super) hash: Hash,
    pub(super) parts: Parts,
    pub(super) unreadable: Vec<String>,
}

impl MessageFacts {
    pub(super) fn is_from_user(&self) -> bool {
        self.role == Role::User
    }

    /// Returns true for the message with which a fork answers the open calls that it inherits: it ends
    /// a turn of a run that is not the fork's.
    pub(super) fn closes(&self, before: Option<&Self>) -> bool {
        let is_asked =
            before.is_some_and(|before| before.is_inherited && before.run_id == self.run_id);
        is_asked && !self.is_inherited && self.is_from_user() && self.parts.only_results
    }

    pub(super) fn is_paused(&self) -> bool {
        self.stop.as_ref().is_some_and(ModelStop::continues_reply)
    }

    /// Returns true for the received part of a reply that the client interrupted.
    pub(super) fn is_interrupted(&self) -> bool {
        self.stop == Some(ModelStop::Interrupted)
    }

    /// Returns true if the model's stop reason lets the turn continue after it.
    pub(super) fn continues_turn(&self) -> bool {
        self.is_paused() || self.stop == Some(ModelStop::ToolUse)
    }
}

/// A row of the ledger.
#[derive(Debug)]
pub(super) struct CallFacts {
    pub(super) message_seq: i32,
    pub(super) run_id: RunId,
    pub(super) has_tenant: bool,
    pub(super) tool_use_id: String,
    pub(super) position: i32,
    pub(super) name: String,
    /// `None` for a state that this version does not know.
    pub(super) state: Option<CallState>,
    pub(super) executions: i32,
    /// True if the file shows the effect of an interrupted call, so that the call may be repeated.
    pub(super) has_evidence: bool,
    /// The party whose answer the call awaited, and whether it still does.
    pub(super) awaits: Option<(Awaits, bool)>,
    /// The hash of the input that was decided on, or that ran.
    pub(super) input_hash: Option<Vec<u8>>,
    /// The hash of the input that replaces the model's.
    pub(super) input: Option<Hash>,
    pub(super) result: Option<Hash>,
    /// True if the result is more than a text.
    pub(super) has_blocks: bool,
    /// True if the history has the same result; `None` if it has none.
    pub(super) history_agrees: Option<bool>,
}

impl CallFacts {
    pub(super) fn is_error(&self) -> bool {
        self.state != Some(CallState::Done)
    }
}

#[derive(Debug)]
pub(super) struct EventFacts {
    pub(super) seq: i64,
    pub(super) run_id: Option<RunId>,
    pub(super) has_tenant: bool,
    /// True if it reports an action of a client.
    pub(super) is_from_client: bool,
    /// True if it belongs to the session and to no run.
    pub(super) is_sessions: bool,
    /// Its own ID, or the ID of the message or call that it reports.
    pub(super) id: String,
    pub(super) body: Body,
}
