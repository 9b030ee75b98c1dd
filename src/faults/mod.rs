//! Fault injection for the crash test: failpoints at which a process is killed or paused, and
//! defects that are enabled to prove that the test detects them.
//!
//! Faults exist only in a build with the feature `faults`. In every other build a failpoint is an
//! empty function, and no defect is enabled.

#[cfg(feature = "faults")]
mod armed;
#[cfg(feature = "faults")]
mod options;

#[cfg(feature = "faults")]
pub(crate) use armed::{clock_skew, has, point, point_blocking, trace_file};
#[cfg(feature = "faults")]
pub use options::FaultArgs;

/// A failpoint: a place in the code where a crash is tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "faults", derive(clap::ValueEnum))]
pub enum Point {
    /// A message was read and is not stored
    PostRead,
    /// A message is stored, and readers are not notified
    MessageStored,
    /// The run was handed over, and the reply is not sent
    BeforeReply,
    /// A worker has claimed a run and has not started it
    Claimed,
    /// The model has received a request and has not replied
    RequestSent,
    /// The model's reply is partly received
    InReply,
    /// The reply is complete and not stored
    ReplyRead,
    /// A reply and the results of its calls are available, and neither is stored
    RoundReady,
    /// A summary of the history is received and not stored
    Compacting,
    /// A call is recorded as started and has not begun
    CallStarted,
    /// A tool with effects is running and has done nothing yet
    CallRunning,
    /// A file is written next to the file that it replaces
    FileWritten,
    /// A call has ended, and its result is not stored
    CallEnded,
    /// A sub-agent has ended, and its parent has not recorded it
    ChildEnded,
    /// Some of several results are stored
    SomeRecorded,
    /// All results are available, and their message is not stored
    ResultsReady,
    /// The message of results is stored
    ResultsStored,
    /// A step is stored, and readers are not notified
    StepStored,
    /// The last step is stored, and readers are not notified
    Settled,
    /// A run is suspended until its calls are answered
    Suspended,
    /// The answer to the last waiting call is stored, and workers are not notified
    Decided,
    /// Shutdown: runs are stopped
    Draining,
    /// Leases are about to be renewed
    Heartbeat,
    /// Between two commits of a step that should be one
    StepSplit,
}

/// A defect that the crash test must detect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "faults", derive(clap::ValueEnum))]
#[cfg_attr(feature = "faults", value(rename_all = "snake_case"))]
pub enum Bug {
    /// Writers use the run's current attempt instead of their own
    NoAttemptCheck,
    /// The ledger does not record that a call has started
    NoStarted,
    /// An assistant message and its ledger rows are stored in two commits
    SplitCommit,
    /// Leases are compared with the clock of the process
    ProcessClock,
    /// Work is found only by notifications
    NoPoll,
}

/// Marks the arrival at a failpoint.
#[cfg(not(feature = "faults"))]
#[expect(clippy::unused_async, reason = "with the feature it may wait")]
pub(crate) async fn point(_: Point) {}

/// [`point`] for code that may block its thread.
#[cfg(not(feature = "faults"))]
pub(crate) fn point_blocking(_: Point) {}

/// Returns `true` if a defect is enabled.
#[cfg(not(feature = "faults"))]
pub(crate) const fn has(_: Bug) -> bool {
    false
}
