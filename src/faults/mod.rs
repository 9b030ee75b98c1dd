//! Faults on purpose, for the crash test: places where a process can be ended or held, and defects
//! that can be switched on to see that the test notices them.
//!
//! Only a build with the feature `faults` can do any of it. In every other build a point is an
//! empty function, and no defect is ever on.

#[cfg(feature = "faults")]
mod armed;
#[cfg(feature = "faults")]
mod options;

#[cfg(feature = "faults")]
pub(crate) use armed::{clock_skew, has, point, point_blocking, witness};
#[cfg(feature = "faults")]
pub use options::FaultArgs;

/// A place in the code where a crash is interesting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "faults", derive(clap::ValueEnum))]
pub enum Point {
    /// A post was read and nothing is stored.
    PostRead,
    /// A message is stored, and nobody has been told.
    MessageStored,
    /// The run was handed over, and the reply is not sent.
    BeforeReply,
    /// A worker has a run and has done nothing with it.
    Claimed,
    /// The model has taken a request and said nothing.
    RequestSent,
    /// The model is in the middle of its reply.
    InReply,
    /// The reply is whole and not stored.
    ReplyRead,
    /// A summary of the history has come, and is not stored.
    Compacting,
    /// A call is noted as started and has not begun.
    CallStarted,
    /// A tool with effects is at work and has done nothing.
    CallRunning,
    /// A file is written beside the one that it will replace.
    FileWritten,
    /// A call has ended, and nobody has noted it.
    CallEnded,
    /// A sub-agent has ended, and its parent has not noted it.
    ChildEnded,
    /// Some of several results are stored.
    SomeRecorded,
    /// All results are there, and their message is not stored.
    ResultsReady,
    /// The message of results is stored.
    ResultsStored,
    /// A step is stored, and nobody has been told.
    StepStored,
    /// The last step is stored, and nobody has been told.
    Settled,
    /// A run is put down until somebody answers its calls.
    Suspended,
    /// The answer to the last call that waited is stored, and nobody has been told.
    Decided,
    /// Runs are told to stop.
    Draining,
    /// Leases are about to be renewed.
    Heartbeat,
    /// Between the two commits of a step that should be one.
    StepSplit,
}

/// A defect that the crash test must notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "faults", derive(clap::ValueEnum))]
#[cfg_attr(feature = "faults", value(rename_all = "snake_case"))]
pub enum Bug {
    /// Writers name whatever attempt the run has now.
    NoAttemptCheck,
    /// The ledger does not say that a call has started.
    NoStarted,
    /// An assistant message and its ledger rows are two commits.
    SplitCommit,
    /// Leases are compared with the clock of the process.
    ProcessClock,
    /// Work is found only when it is announced.
    NoPoll,
}

/// Says that the process is at this place.
#[cfg(not(feature = "faults"))]
#[expect(clippy::unused_async, reason = "with the feature it may wait")]
pub(crate) async fn point(_: Point) {}

/// [`point`] where the thread may block.
#[cfg(not(feature = "faults"))]
pub(crate) fn point_blocking(_: Point) {}

/// Whether a defect is switched on.
#[cfg(not(feature = "faults"))]
pub(crate) const fn has(_: Bug) -> bool {
    false
}
