//! The reasons for which a run is no longer driven.

use crate::agent::history::BadReply;
use crate::domain::budget::Exceeded;
use crate::domain::ids::RunId;
use crate::domain::message::BadContent;
use crate::domain::outcome::{ErrorType, RunError};
use crate::domain::run_status::RunStatus;
use crate::domain::stop_reason::StopReason;
use crate::model::ModelError;
use crate::store::StoreError;
use crate::store::retry::DatabaseFailure;

/// The text that clients read of an internal error.
const INTERNAL_ERROR: &str = "internal error; the log of the service has the cause";

/// The reason for which a run is no longer driven.
#[derive(Debug)]
pub(in crate::worker) enum StopCause {
    /// Another worker may hold the run: nothing more may be written.
    LeaseLost,
    /// The client cancelled the run.
    Cancelled,
    /// This process is shutting down.
    ShuttingDown,
    /// The model returned no usable reply.
    Model(ModelError),
    /// A budget does not allow the next request.
    Budget(Exceeded),
    /// The database failed.
    Store(StoreError),
    /// A state that cannot occur, such as a stored message that cannot be parsed.
    Defect(String),
    /// Several workers in a row stopped during the run without progress.
    CrashLoop,
    /// The run is suspended until its calls are answered.
    Suspended,
    /// The message of a run that started early was not accepted, or its run was queued: there is no run
    /// to drive.
    NotAccepted,
    /// The session of a run that started early has other messages than this process knew.
    OtherHistory,
    /// The session of a run that started early has other settings than this process knew.
    OtherSettings,
}

/// The last action on a run that is no longer driven.
#[derive(Debug)]
pub(in crate::worker) enum Ending {
    /// Nothing.
    None,
    /// Release the lease, so that another worker continues the run.
    Release {
        /// The run may be the cause, so the release counts as a takeover.
        has_failed: bool,
    },
    /// Settle the run.
    Settle { status: RunStatus, stop_reason: StopReason, error: Option<RunError> },
}

impl StopCause {
    /// The class of a failure, as the run's span has it. None if the run did not fail.
    pub(in crate::worker) fn failure_class(&self) -> Option<&str> {
        match self {
            Self::Model(error) => Some(error.name()),
            Self::Budget(_) => Some("budget_exceeded"),
            Self::Store(_) => Some("database"),
            Self::Defect(_) => Some("defect"),
            Self::CrashLoop => Some("crash_loop"),
            Self::LeaseLost
            | Self::Cancelled
            | Self::ShuttingDown
            | Self::Suspended
            | Self::NotAccepted
            | Self::OtherHistory
            | Self::OtherSettings => None,
        }
    }

    /// Logs the cause and returns the last action on the run.
    pub(in crate::worker) fn into_ending(self, run_id: RunId) -> Ending {
        match self {
            Self::LeaseLost => {
                tracing::warn!(run.id = %run_id, "lease lost, another worker continues the run");
                Ending::None
            }
            Self::Suspended => Ending::None,
            Self::NotAccepted => {
                tracing::debug!(run.id = %run_id, "run dropped, its message did not start it");
                Ending::None
            }
            // The driver reads the history and starts again, so this is not the end of a run.
            Self::OtherHistory => Ending::Release { has_failed: true },
            Self::Cancelled => Ending::Settle {
                status: RunStatus::Cancelled,
                stop_reason: StopReason::Cancelled,
                error: None,
            },
            Self::ShuttingDown | Self::OtherSettings => Ending::Release { has_failed: false },
            // A worker that took the run over would ask the model again and fail here again.
            Self::Store(error) if error.is_permanent() => {
                tracing::error!(run.id = %run_id, %error, "step of a run cannot be stored");
                failed(ErrorType::InternalError, INTERNAL_ERROR)
            }
            Self::Store(error) => {
                tracing::error!(run.id = %run_id, %error, "run released after a database failure");
                // An unavailable database says nothing about the run.
                Ending::Release { has_failed: !error.may_pass() }
            }
            Self::Model(error) => {
                tracing::error!(run.id = %run_id, %error, "model returned no usable reply");
                let stop_reason = if error.is_after_retries() {
                    StopReason::RetriesExhausted
                } else {
                    StopReason::Error
                };
                settled(stop_reason, error.for_clients())
            }
            Self::Budget(exceeded) => {
                tracing::info!(run.id = %run_id, %exceeded, "run stopped by a budget");
                let message = exceeded.to_string();
                let Exceeded { scope, unit, .. } = exceeded;
                let error = RunError::new(ErrorType::BudgetExceeded, message);
                settled(StopReason::BudgetExceeded { scope, unit }, error)
            }
            Self::Defect(cause) => {
                tracing::error!(run.id = %run_id, cause, "internal error in a run");
                failed(ErrorType::InternalError, INTERNAL_ERROR)
            }
            Self::CrashLoop => {
                tracing::error!(run.id = %run_id, "run failed after too many takeovers");
                failed(
                    ErrorType::CrashLoop,
                    "several workers in a row stopped during this run without progress",
                )
            }
        }
    }
}

fn failed(r#type: ErrorType, message: &str) -> Ending {
    settled(StopReason::Error, RunError::new(r#type, message))
}

fn settled(stop_reason: StopReason, error: RunError) -> Ending {
    Ending::Settle { status: RunStatus::Failed, stop_reason, error: Some(error) }
}

impl DatabaseFailure for StopCause {
    fn store_error(&self) -> Option<&StoreError> {
        if let Self::Store(error) = self { Some(error) } else { None }
    }
}

impl From<StoreError> for StopCause {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<sqlx::Error> for StopCause {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

impl From<BadContent> for StopCause {
    fn from(error: BadContent) -> Self {
        Self::Defect(error.to_string())
    }
}

impl From<BadReply> for StopCause {
    fn from(error: BadReply) -> Self {
        Self::Model(ModelError::Malformed(error.to_string()))
    }
}

impl From<serde_json::Error> for StopCause {
    fn from(error: serde_json::Error) -> Self {
        Self::Defect(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unavailable_database_does_not_count_against_the_run() {
        for (error, counts) in [
            (StoreError::NoAnswer, false),
            (sqlx::Error::PoolTimedOut.into(), false),
            (sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into()).into(), false),
            (sqlx::Error::RowNotFound.into(), true),
        ] {
            let text = format!("{error:?}");
            let ending = StopCause::Store(error).into_ending(RunId::new());
            assert!(
                matches!(ending, Ending::Release { has_failed } if has_failed == counts),
                "{text}: {ending:?}"
            );
        }
    }
}
