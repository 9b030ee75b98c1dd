//! What must hold in a session, and what is wrong where it does not.

use std::fmt;

use serde::Serialize;

use super::ids::{RunId, SessionId};

/// What holds in every session, whoever looks at it and when. What belongs to a live run, such as
/// a call that has no answer yet, breaks none of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Invariant {
    /// Stored JSON is what this version reads.
    Readable,
    /// Every row has the tenant of its session.
    TenantsAgree,
    /// Messages are numbered from 1 without a gap.
    MessagesNumbered,
    /// The user speaks first, and nobody twice in a row, but for a new run or a paused reply.
    RolesAlternate,
    /// No message is empty and no text is blank.
    ContentNotBlank,
    /// Every call is answered once, in the next message, before anything else.
    CallsAnswered,
    /// No two calls of a history have the same id.
    CallIdsUnique,
    /// A reply that ends a turn has the result of each call of the model's own tools. What a turn
    /// that was to go on left open is left out of what is sent.
    ServerCallsClosed,
    /// Each run's part of the history is whole, begins with its message, and is in its turn.
    RunsInOrder,
    /// Attempts never go back along a run, and none is newer than the run's.
    AttemptsInOrder,
    /// At most one run of a session is live.
    OneLiveRun,
    /// A run has what its status asks for: a lease, an outcome, an end.
    RunStateWhole,
    /// A run that is driven has a lease that somebody renews.
    LeaseRenewed,
    /// A run that waits for somebody waits for a call, and is taken up when its time has come.
    WaitsEnd,
    /// Every call has its row in the ledger, and every row its call.
    LedgerComplete,
    /// A call of a round that is over has ended.
    CallsEnded,
    /// A call was made as often as it may be.
    CallsMadeOnce,
    /// What ran is what was shown to who decided, or what they put in its place.
    InputsApproved,
    /// The model was told what the ledger says.
    AnswersRecorded,
    /// Events are numbered from 1 without a gap.
    EventsNumbered,
    /// Every run was announced by the event of its message.
    RunsAnnounced,
    /// Events, read from the first on, tell exactly what the history and the ledger say.
    EventsTellAll,
    /// A settled run has one last event, and a run that goes on has none.
    EndToldOnce,
    /// Counters and sums are those of the rows.
    CountersAgree,
}

impl Invariant {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Readable => "readable",
            Self::TenantsAgree => "tenants_agree",
            Self::MessagesNumbered => "messages_numbered",
            Self::RolesAlternate => "roles_alternate",
            Self::ContentNotBlank => "content_not_blank",
            Self::CallsAnswered => "calls_answered",
            Self::CallIdsUnique => "call_ids_unique",
            Self::ServerCallsClosed => "server_calls_closed",
            Self::RunsInOrder => "runs_in_order",
            Self::AttemptsInOrder => "attempts_in_order",
            Self::OneLiveRun => "one_live_run",
            Self::RunStateWhole => "run_state_whole",
            Self::LeaseRenewed => "lease_renewed",
            Self::WaitsEnd => "waits_end",
            Self::LedgerComplete => "ledger_complete",
            Self::CallsEnded => "calls_ended",
            Self::CallsMadeOnce => "calls_made_once",
            Self::InputsApproved => "inputs_approved",
            Self::AnswersRecorded => "answers_recorded",
            Self::EventsNumbered => "events_numbered",
            Self::RunsAnnounced => "runs_announced",
            Self::EventsTellAll => "events_tell_all",
            Self::EndToldOnce => "end_told_once",
            Self::CountersAgree => "counters_agree",
        }
    }
}

/// Where something is wrong. What is not known, or not one thing, is left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Place {
    /// The session.
    #[schema(value_type = String)]
    pub session_id: SessionId,
    /// The run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub run_id: Option<RunId>,
    /// The message's place in the history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_seq: Option<i32>,
    /// The event's number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_seq: Option<i64>,
    /// The model's id of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
}

impl Place {
    /// The session as a whole.
    pub const fn of(session_id: SessionId) -> Self {
        Self { session_id, run_id: None, message_seq: None, event_seq: None, tool_use_id: None }
    }

    /// In this run.
    #[must_use]
    pub fn run(self, run_id: RunId) -> Self {
        Self { run_id: Some(run_id), ..self }
    }

    /// At this message.
    #[must_use]
    pub fn message(self, seq: i32) -> Self {
        Self { message_seq: Some(seq), ..self }
    }

    /// At this event.
    #[must_use]
    pub fn event(self, seq: i64) -> Self {
        Self { event_seq: Some(seq), ..self }
    }

    /// At this call.
    #[must_use]
    pub fn call(self, tool_use_id: &str) -> Self {
        Self { tool_use_id: Some(tool_use_id.to_owned()), ..self }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.session_id)?;
        if let Some(run_id) = self.run_id {
            write!(f, ", {run_id}")?;
        }
        if let Some(seq) = self.message_seq {
            write!(f, ", message {seq}")?;
        }
        if let Some(seq) = self.event_seq {
            write!(f, ", event {seq}")?;
        }
        match &self.tool_use_id {
            Some(id) => write!(f, ", call {id}"),
            None => Ok(()),
        }
    }
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Finding {
    /// What does not hold.
    pub invariant: Invariant,
    /// Where.
    pub place: Place,
    /// How, in a sentence.
    pub detail: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.invariant.as_str(), self.detail, self.place)
    }
}

/// How many rows were looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, utoipa::ToSchema)]
pub struct Checked {
    /// Messages of the history.
    pub messages: usize,
    /// Runs.
    pub runs: usize,
    /// Rows of the ledger.
    pub calls: usize,
    /// Events.
    pub events: usize,
}

impl std::ops::AddAssign for Checked {
    fn add_assign(&mut self, other: Self) {
        self.messages += other.messages;
        self.runs += other.runs;
        self.calls += other.calls;
        self.events += other.events;
    }
}

/// What looking at one session gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verification {
    /// The session.
    pub session_id: SessionId,
    /// What is wrong; nothing in a sound session.
    pub findings: Vec<Finding>,
    /// What was looked at.
    pub checked: Checked,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_names_what_is_known_of_it() {
        let session_id = SessionId::from(uuid::Uuid::from_u128(1));
        let place = Place::of(session_id).message(2).call("toolu_1");
        let expected = serde_json::json!({
            "session_id": session_id, "message_seq": 2, "tool_use_id": "toolu_1"
        });
        assert_eq!(serde_json::to_value(place).unwrap(), expected);
    }

    #[test]
    fn a_finding_is_one_line_for_people() {
        let session_id = SessionId::from(uuid::Uuid::from_u128(1));
        let place = Place::of(session_id).message(2).event(3).call("toolu_1");
        let finding =
            Finding { invariant: Invariant::CallsAnswered, place, detail: "it is open".to_owned() };
        let expected =
            format!("calls_answered: it is open ({session_id}, message 2, event 3, call toolu_1)");
        assert_eq!(finding.to_string(), expected);
    }

    #[test]
    fn an_invariant_is_the_same_word_in_print_and_on_the_wire() {
        for invariant in [Invariant::Readable, Invariant::CallIdsUnique, Invariant::EndToldOnce] {
            assert_eq!(serde_json::to_value(invariant).unwrap(), invariant.as_str());
        }
    }
}
