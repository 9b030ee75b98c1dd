//! A run that a request has started or continued.

use crate::domain::run::Run;
use crate::service::answers::AnsweredRun;
use crate::service::cancel::StoppedRun;
use crate::service::messages::PostedRun;

/// A run that a request has started or continued.
#[derive(Debug)]
pub(in crate::http) struct FollowedRun {
    /// The run.
    pub(in crate::http) run: Run,
    /// True if an earlier request had the same effect.
    pub(in crate::http) is_repeated: bool,
    /// The number of the event before the first one that belongs to the request. The stream of the
    /// response begins after it.
    pub(in crate::http) after: i64,
    /// The number of the last event that belongs to the request, after which `stream_url` continues;
    /// none if the stream begins with the run.
    pub(in crate::http) stream_after: Option<i64>,
    /// True if the bus delivers all events after that one.
    pub(in crate::http) is_live: bool,
}

impl From<PostedRun> for FollowedRun {
    fn from(posted: PostedRun) -> Self {
        let PostedRun { run, is_repeated } = posted;
        // The response subscribes before the message is accepted.
        Self {
            after: run.accepted_seq - 1,
            stream_after: None,
            is_live: !is_repeated,
            run,
            is_repeated,
        }
    }
}

impl From<AnsweredRun> for FollowedRun {
    fn from(answered: AnsweredRun) -> Self {
        let AnsweredRun { run, is_repeated, events } = answered;
        let first = events.map_or(run.accepted_seq, |events| events.first);
        let stream_after = events.map(|events| events.last);
        Self { after: first - 1, stream_after, is_live: false, run, is_repeated }
    }
}

impl From<StoppedRun> for FollowedRun {
    fn from(stopped: StoppedRun) -> Self {
        let StoppedRun { run, events } = stopped;
        let first = events.map(|events| events.first);
        Self {
            after: first.unwrap_or(run.accepted_seq) - 1,
            stream_after: first,
            is_live: false,
            is_repeated: false,
            run,
        }
    }
}
