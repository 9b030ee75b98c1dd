//! The reasons for which calls end without an outcome of their tool, and the texts for the model.

use serde::Serialize;

/// The reason for which a call ended without an outcome of its tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The client cancelled the run.
    CancelledByClient,
    /// A new message interrupted the run.
    InterruptedByMessage,
    /// The run was a sub-agent's, and the run that waited for it ended.
    ParentEnded,
    /// The run failed.
    RunFailed,
    /// The worker stopped while the call was running.
    WorkerStopped,
    /// A rule, the permission mode or the permission evaluator denied the call.
    DeniedByPolicy,
    /// An approver denied the call.
    DeniedByApprover,
    /// No approver decided before the deadline.
    ApprovalExpired,
    /// The input of the call was not the approved input.
    InputNotApproved,
    /// The client sent no result before the deadline.
    ResultExpired,
}

/// The result of a call that may have run.
macro_rules! interrupted {
    ($cause:literal) => {
        concat!(
            "Interrupted: ",
            $cause,
            " while this call was running. It may have run in part or completely. Check the state \
             before you repeat it."
        )
    };
}

/// The result of a call that did not start, as far as the service knows.
macro_rules! cancelled {
    ($cause:literal) => {
        concat!("Cancelled: ", $cause, " before this call was answered.")
    };
}

/// The result that the model receives when a worker stopped during a call with effects.
pub const INTERRUPTED: &str = interrupted!("the worker stopped");

/// The result of an open call that had started when its session was forked.
pub const FORKED_WHILE_RUNNING: &str = interrupted!("the conversation was forked");

/// The result of an open call that had not started when its session was forked.
pub const FORKED_BEFORE_RUNNING: &str = cancelled!("the conversation was forked");

impl EndReason {
    const ALL: [Self; 10] = [
        Self::CancelledByClient,
        Self::InterruptedByMessage,
        Self::ParentEnded,
        Self::RunFailed,
        Self::WorkerStopped,
        Self::DeniedByPolicy,
        Self::DeniedByApprover,
        Self::ApprovalExpired,
        Self::InputNotApproved,
        Self::ResultExpired,
    ];

    /// The reason as text, on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CancelledByClient => "cancelled_by_client",
            Self::InterruptedByMessage => "interrupted_by_message",
            Self::ParentEnded => "parent_ended",
            Self::RunFailed => "run_failed",
            Self::WorkerStopped => "worker_stopped",
            Self::DeniedByPolicy => "denied_by_policy",
            Self::DeniedByApprover => "denied_by_approver",
            Self::ApprovalExpired => "approval_expired",
            Self::InputNotApproved => "input_not_approved",
            Self::ResultExpired => "result_expired",
        }
    }

    /// Parses the text that the database stores.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }
}

/// The cause for which a run ends before its calls are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    /// The client cancelled the run.
    Client,
    /// A new message interrupted the run.
    Message,
    /// The run was a sub-agent's, and the run that waited for it ended.
    Parent,
    /// The run failed.
    Failure,
}

impl RunEnd {
    /// The cause of a cancellation as text in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Message => "message",
            Self::Parent => "parent",
            Self::Failure => "failure",
        }
    }

    /// Parses the text that the database stores. None for text that this version does not know.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Client, Self::Message, Self::Parent, Self::Failure]
            .into_iter()
            .find(|end| end.as_str() == text)
    }

    /// The reason for which the open calls of the run end.
    pub const fn reason(self) -> EndReason {
        match self {
            Self::Client => EndReason::CancelledByClient,
            Self::Message => EndReason::InterruptedByMessage,
            Self::Parent => EndReason::ParentEnded,
            Self::Failure => EndReason::RunFailed,
        }
    }

    /// The result of a call that had not started, as far as the service knows.
    pub const fn before_running(self) -> &'static str {
        match self {
            Self::Client => cancelled!("the user cancelled the run"),
            Self::Message => cancelled!("a new message of the user interrupted the run"),
            Self::Parent => cancelled!("the run that waited for this sub-agent ended"),
            Self::Failure => cancelled!("the run failed"),
        }
    }

    /// The result of a call that was running.
    pub const fn while_running(self) -> &'static str {
        match self {
            Self::Client => interrupted!("the user cancelled the run"),
            Self::Message => interrupted!("a new message of the user interrupted the run"),
            Self::Parent => interrupted!("the run that waited for this sub-agent ended"),
            Self::Failure => interrupted!("the run failed"),
        }
    }
}

/// Returns true for a result that the service generated because a call had none.
pub fn is_generated(text: &str) -> bool {
    let between = |start: &str, end: &str| {
        text.strip_prefix(start).is_some_and(|rest| rest.ends_with(end) && rest.len() < 200)
    };
    between("Interrupted: ", "Check the state before you repeat it.")
        || between("Cancelled: ", " before this call was answered.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_read_as_it_is_written() {
        for reason in EndReason::ALL {
            assert_eq!(EndReason::parse(reason.as_str()), Some(reason));
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
    }

    #[test]
    fn generated_results_are_recognized_and_others_are_not() {
        let ends = [RunEnd::Client, RunEnd::Message, RunEnd::Parent, RunEnd::Failure];
        let texts = ends.iter().flat_map(|end| [end.before_running(), end.while_running()]);
        let forked = [INTERRUPTED, FORKED_WHILE_RUNNING, FORKED_BEFORE_RUNNING];
        // The text of earlier versions.
        let earlier = "Cancelled: the run was cancelled before this call was answered.";
        for text in texts.chain(forked).chain([earlier]) {
            assert!(is_generated(text), "{text}");
        }
        for text in ["", "Cancelled: no.", "Interrupted: the worker stopped", "It was answered."] {
            assert!(!is_generated(text), "{text}");
        }
    }

    #[test]
    fn an_interrupted_call_is_reported_in_one_sentence_of_words_with_single_spaces() {
        for text in [INTERRUPTED, FORKED_WHILE_RUNNING] {
            assert!(!text.contains("  "), "{text}");
        }
    }
}
