//! Forks: sessions that continue from a message of another session.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::call_end::{FORKED_BEFORE_RUNNING, FORKED_WHILE_RUNNING};
use super::ids::SessionId;
use super::tool::{CallResult, CallState};

/// The point at which a fork leaves its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct ForkedFrom {
    /// The source session.
    #[schema(value_type = String)]
    pub session_id: SessionId,
    /// The number of the last shared message; 0 if no message is shared.
    pub message_seq: i32,
}

/// A client's reference to a message of a history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged, expecting = "the number or the id of a message is expected")]
pub enum MessageName {
    /// Its number, from 1.
    Seq(i64),
    /// Its id; if several messages have the id, the last one.
    Id(String),
}

/// The state of a source when its files were copied, at the latest. Later messages and results may
/// refer to files that the copy does not have.
#[derive(Debug, Clone, Copy)]
pub struct CopyPoint {
    /// The number of the last message.
    pub last: i32,
    /// The time, by the clock of the database.
    pub at: Timestamp,
}

/// The result with which a fork answers a call of its last inherited message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClosingResult {
    /// The result: the call's own, or a generated one.
    pub result: CallResult,
    /// The duration of the call in milliseconds; 0 if it is unknown, or if the call did not run.
    pub duration_ms: i64,
}

impl ClosingResult {
    /// The result of a call whose own result is not known to the fork.
    pub fn unknown(tool_use_id: &str, state: CallState) -> Self {
        let text = match state {
            CallState::Planned | CallState::Denied => FORKED_BEFORE_RUNNING,
            CallState::Started | CallState::Done | CallState::Failed | CallState::Interrupted => {
                FORKED_WHILE_RUNNING
            }
        };
        let result = CallResult::of_text(tool_use_id, CallState::Interrupted, text);
        Self { result, duration_ms: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_call_that_did_not_start_is_reported_as_cancelled() {
        let text = |state| ClosingResult::unknown("a", state).result.text;
        assert_eq!(text(CallState::Planned), FORKED_BEFORE_RUNNING);
        // It ended after the files were copied.
        assert_eq!(text(CallState::Done), FORKED_WHILE_RUNNING);
        assert_eq!(text(CallState::Started), FORKED_WHILE_RUNNING);
    }

    #[test]
    fn a_message_is_named_by_its_number_or_its_id() {
        let name = |json: &str| serde_json::from_str::<MessageName>(json).ok();
        assert_eq!(name("7"), Some(MessageName::Seq(7)));
        assert_eq!(name("\"7\""), Some(MessageName::Id("7".to_owned())));
        for neither in ["7.5", "true", "[7]", "null"] {
            assert_eq!(name(neither), None, "{neither}");
        }
    }
}
