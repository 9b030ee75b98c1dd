//! Invariants of a session, and their violations.

use std::fmt;

use serde::Serialize;

use super::ids::{RunId, SessionId};

/// An invariant that holds in every session at any time. States of an active run, such as a call
/// without a result, do not violate any of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Invariant {
    /// Every row belongs to a session that exists. Only `twostep verify` checks this, because a
    /// session that does not exist cannot be requested.
    SessionExists,
    /// Stored JSON can be parsed by this version.
    Readable,
    /// Every row has the tenant of its session.
    TenantsAgree,
    /// Messages are numbered from 1 without a gap.
    MessagesNumbered,
    /// The user speaks first, and the roles alternate, except after a new run or a paused reply.
    RolesAlternate,
    /// No message is empty and no text is blank.
    ContentNotBlank,
    /// Every call has one result, at the beginning of the next message.
    CallsAnswered,
    /// No two calls of a history have the same id.
    CallIdsUnique,
    /// A reply that ends a turn has the result of each server tool call. Server tool calls that an
    /// interrupted turn left open are not sent.
    ServerCallsClosed,
    /// A reply that the client interrupted has no calls, and nothing follows it in its run.
    InterruptedReplies,
    /// Each run's part of the history is contiguous, begins with its message, and is in order.
    RunsInOrder,
    /// Attempt numbers do not decrease along a run, and none exceeds the run's.
    AttemptsInOrder,
    /// At most one run of a session is live.
    OneLiveRun,
    /// A run has the data that its status requires: a lease, an outcome, an end.
    RunStateWhole,
    /// A running run has a lease that its worker renews.
    LeaseRenewed,
    /// A waiting run waits for a call, and resumes when its deadline has passed.
    WaitsEnd,
    /// Every call has its row in the ledger, and every row its call.
    LedgerComplete,
    /// Every call of a finished round has ended.
    CallsEnded,
    /// No call ran more often than its class allows.
    CallsMadeOnce,
    /// The input that ran is the input that was approved, or its replacement.
    InputsApproved,
    /// The results in the history match the ledger.
    AnswersRecorded,
    /// Events are numbered from 1 without a gap.
    EventsNumbered,
    /// Every run was announced by the event of its message.
    RunsAnnounced,
    /// The events match the history and the ledger exactly.
    #[serde(rename = "events_tell_all")]
    EventsComplete,
    /// A settled run has one final event, and an active run has none.
    #[serde(rename = "end_told_once")]
    OneFinalEvent,
    /// Counters and sums match the rows.
    CountersAgree,
}

impl Invariant {
    /// The invariant as text on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SessionExists => "session_exists",
            Self::Readable => "readable",
            Self::TenantsAgree => "tenants_agree",
            Self::MessagesNumbered => "messages_numbered",
            Self::RolesAlternate => "roles_alternate",
            Self::ContentNotBlank => "content_not_blank",
            Self::CallsAnswered => "calls_answered",
            Self::CallIdsUnique => "call_ids_unique",
            Self::ServerCallsClosed => "server_calls_closed",
            Self::InterruptedReplies => "interrupted_replies",
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
            Self::EventsComplete => "events_tell_all",
            Self::OneFinalEvent => "end_told_once",
            Self::CountersAgree => "counters_agree",
        }
    }
}

/// The location of a violation. Unknown or ambiguous parts are absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = Place)]
pub struct Location {
    /// The session.
    #[schema(value_type = String)]
    pub session_id: SessionId,
    /// The run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub run_id: Option<RunId>,
    /// The number of the message in the history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_seq: Option<i32>,
    /// The sequence number of the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_seq: Option<i64>,
    /// The model's id of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
}

impl Location {
    /// The location of the whole session.
    pub const fn of(session_id: SessionId) -> Self {
        Self { session_id, run_id: None, message_seq: None, event_seq: None, tool_use_id: None }
    }

    /// Sets the run.
    #[must_use]
    pub fn run(self, run_id: RunId) -> Self {
        Self { run_id: Some(run_id), ..self }
    }

    /// Sets the message.
    #[must_use]
    pub fn message(self, seq: i32) -> Self {
        Self { message_seq: Some(seq), ..self }
    }

    /// Sets the event.
    #[must_use]
    pub fn event(self, seq: i64) -> Self {
        Self { event_seq: Some(seq), ..self }
    }

    /// Sets the call.
    #[must_use]
    pub fn call(self, tool_use_id: &str) -> Self {
        Self { tool_use_id: Some(tool_use_id.to_owned()), ..self }
    }
}

impl fmt::Display for Location {
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

/// A violation of an invariant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Finding {
    /// The violated invariant.
    pub invariant: Invariant,
    /// The location.
    pub place: Location,
    /// A description.
    pub detail: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.invariant.as_str(), self.detail, self.place)
    }
}

/// The number of checked rows.
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

/// The result of the verification of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verification {
    /// The session.
    pub session_id: SessionId,
    /// The violations; empty for a valid session.
    pub findings: Vec<Finding>,
    /// The number of checked rows.
    pub checked: Checked,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_has_only_its_known_parts() {
        let session_id = SessionId::from(uuid::Uuid::from_u128(1));
        let place = Location::of(session_id).message(2).call("toolu_1");
        let expected = serde_json::json!({
            "session_id": session_id, "message_seq": 2, "tool_use_id": "toolu_1"
        });
        assert_eq!(serde_json::to_value(place).unwrap(), expected);
    }

    #[test]
    fn a_finding_is_one_line_for_people() {
        let session_id = SessionId::from(uuid::Uuid::from_u128(1));
        let place = Location::of(session_id).message(2).event(3).call("toolu_1");
        let finding =
            Finding { invariant: Invariant::CallsAnswered, place, detail: "it is open".to_owned() };
        let expected =
            format!("calls_answered: it is open ({session_id}, message 2, event 3, call toolu_1)");
        assert_eq!(finding.to_string(), expected);
    }

    #[test]
    fn the_text_of_an_invariant_is_the_same_in_print_and_on_the_wire() {
        for invariant in [Invariant::Readable, Invariant::CallIdsUnique, Invariant::OneFinalEvent] {
            assert_eq!(serde_json::to_value(invariant).unwrap(), invariant.as_str());
        }
    }
}
