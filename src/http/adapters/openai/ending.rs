//! The end of an answer.

use super::completion::FinishReason;
use crate::domain::stop_reason::StopReason;

/// The text of an error without a message of its own.
const FAILED: &str = "The run failed.";
/// The text of the error of a deleted session.
pub(super) const DELETED: &str = "The session was deleted.";

/// The end of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    Finished(FinishReason),
    /// The text of the error.
    Failed(String),
}

impl Ending {
    /// The end of a run that is idle for this reason, or has this error.
    pub(super) fn of(stop_reason: Option<&StopReason>, error: Option<&str>) -> Self {
        let reason = match stop_reason {
            Some(
                StopReason::EndTurn
                | StopReason::StopSequence { .. }
                | StopReason::Cancelled
                | StopReason::Unknown { .. },
            ) => FinishReason::Stop,
            Some(StopReason::MaxTokens | StopReason::ModelContextWindowExceeded) => {
                FinishReason::Length
            }
            Some(StopReason::Refusal(_)) => FinishReason::ContentFilter,
            Some(
                StopReason::RetriesExhausted
                | StopReason::Error
                | StopReason::BudgetExceeded { .. },
            ) => return Self::failed(error),
            None if error.is_some() => return Self::failed(error),
            // Without a reason the run waits too, and the event that reports it is older than the stream.
            Some(StopReason::RequiresAction { .. }) | None => FinishReason::ToolCalls,
        };
        Self::Finished(reason)
    }

    fn failed(error: Option<&str>) -> Self {
        Self::Failed(error.unwrap_or(FAILED).to_owned())
    }
}
