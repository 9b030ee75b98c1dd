//! Values of metric labels.

/// The origin of a run that a worker claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimedFrom {
    /// The queue.
    Queue,
    /// A worker whose lease expired.
    ExpiredLease,
    /// The request that accepted the run.
    HandOver,
    /// A wait for answers to its calls.
    Wait,
}

impl ClaimedFrom {
    pub(super) const ALL: [Self; 4] = [Self::Queue, Self::ExpiredLease, Self::HandOver, Self::Wait];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Queue => "queued",
            Self::ExpiredLease => "expired",
            Self::HandOver => "handed",
            Self::Wait => "woken",
        }
    }
}

/// The outcome of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionOutcome {
    /// A summary was stored.
    Done,
    /// No summary was stored.
    Failed,
}

impl CompactionOutcome {
    pub(super) const ALL: [Self; 2] = [Self::Done, Self::Failed];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

/// The outcome of a request to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestOutcome {
    /// A reply.
    Replied,
    /// An error.
    Failed,
    /// The run was stopped.
    Stopped,
}

impl RequestOutcome {
    pub(super) const ALL: [Self; 3] = [Self::Replied, Self::Failed, Self::Stopped];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Replied => "replied",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}

/// The outcome of a webhook delivery attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebhookOutcome {
    /// Accepted.
    Delivered,
    /// Failed; it is retried.
    Retried,
    /// Failed for the last time.
    Failed,
}

impl WebhookOutcome {
    pub(super) const ALL: [Self; 3] = [Self::Delivered, Self::Retried, Self::Failed];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Retried => "retried",
            Self::Failed => "failed",
        }
    }
}
