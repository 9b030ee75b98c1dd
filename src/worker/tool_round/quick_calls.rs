//! Calls without effects that are executed before their reply is stored, so that one step stores the
//! reply, the calls and their results. A crash before this step loses them together: the model is
//! asked again, as whenever a reply is lost, and calls without effects may run again.

use std::panic::resume_unwind;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{self, FuturesUnordered, Stream, StreamExt as _};
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;
use tracing::Instrument as _;

use super::images::History;
use super::plan::{EndedCall, RoundResults, ToolRound};
use crate::domain::tool::ToolCall;
use crate::worker::run::context::RunContext;

/// The time that a complete reply waits for the results of its calls. Reading a local file takes less
/// than a millisecond. A longer call is stored, and shown to clients, later by this time.
const MAX_WAIT: Duration = Duration::from_millis(25);

/// The calls of a reply that is not stored yet.
#[derive(Debug)]
pub(in crate::worker) struct QuickCalls {
    running: FuturesUnordered<BoxFuture<'static, EndedCall>>,
    ended: Vec<EndedCall>,
    /// The calls that take longer than their reply waits. They are tasks, because the driver stores the
    /// reply and waits for its slot meanwhile: a call that is not polled keeps its connection to the
    /// database, and the driver could wait for it without end.
    longer: JoinSet<EndedCall>,
}

impl QuickCalls {
    pub(super) fn new(running: impl IntoIterator<Item = BoxFuture<'static, EndedCall>>) -> Self {
        let running = running.into_iter().collect();
        Self { running, ended: Vec::new(), longer: JoinSet::new() }
    }

    /// Waits for a short time for the end of all calls. Returns true if all have ended. The others
    /// continue until this value is dropped.
    pub(in crate::worker) async fn end_soon(&mut self, run: &RunContext<'_>) -> bool {
        // A run that is stopped stores its reply first.
        if let Ok(true) = run.signals.unless_draining(self.end_within(MAX_WAIT)).await {
            return true;
        }
        self.detach();
        false
    }

    async fn end_within(&mut self, limit: Duration) -> bool {
        let Self { running, ended, .. } = self;
        let all = async {
            while let Some(call) = running.next().await {
                ended.push(call);
            }
        };
        timeout(limit, all).await.is_ok()
    }

    /// Lets the calls run that have not ended.
    fn detach(&mut self) {
        for call in std::mem::take(&mut self.running) {
            self.longer.spawn(call.in_current_span());
        }
    }

    /// The results of calls that have all ended.
    pub(in crate::worker) fn into_results(
        mut self,
        calls: &[ToolCall],
        history: History<'_>,
    ) -> RoundResults {
        self.ended.sort_by_key(|ended| ended.position);
        let mut round = ToolRound::new(calls, Vec::new());
        for ended in self.ended {
            round.end_by_tool(ended, history);
        }
        round.into_results()
    }

    /// The calls in the order of their ends.
    pub(super) fn into_stream(self) -> impl Stream<Item = EndedCall> + Send {
        let longer = stream::unfold(self.longer, |mut calls: JoinSet<_>| async move {
            match calls.join_next().await?.map_err(JoinError::try_into_panic) {
                Ok(ended) => Some((ended, calls)),
                // As if the driver had polled the call.
                Err(Ok(panic)) => resume_unwind(panic),
                // Only dropping the calls stops them.
                Err(Err(_)) => None,
            }
        });
        stream::iter(self.ended).chain(longer)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt as _;
    use tokio::sync::{Semaphore, oneshot};

    use super::*;
    use crate::domain::tool::{CallResult, CallState};

    fn ended(position: usize) -> EndedCall {
        EndedCall::not_executed(position, CallResult::of_text("a", CallState::Done, "noon"))
    }

    #[tokio::test]
    async fn calls_that_take_longer_go_on_while_nothing_polls_them() {
        let release = Arc::new(Semaphore::new(0));
        let (sender, has_ended) = oneshot::channel();
        let waiting = Arc::clone(&release);
        let slow = async move {
            let _permit = waiting.acquire().await;
            let _ = sender.send(());
            ended(1)
        };
        let mut quick = QuickCalls::new([async { ended(0) }.boxed(), slow.boxed()]);
        assert!(!quick.end_within(Duration::ZERO).await);
        quick.detach();
        release.add_permits(1);
        has_ended.await.unwrap();
        let positions: Vec<usize> = quick.into_stream().map(|ended| ended.position).collect().await;
        assert_eq!(positions, [0, 1]);
    }

    #[tokio::test]
    async fn calls_that_take_longer_stop_with_their_run() {
        let (sender, mut is_dropped) = oneshot::channel::<()>();
        let slow = async move {
            let _sender = sender;
            std::future::pending().await
        };
        let mut quick = QuickCalls::new([slow.boxed()]);
        assert!(!quick.end_within(Duration::ZERO).await);
        quick.detach();
        assert!(is_dropped.try_recv().is_err());
        drop(quick);
        assert!(is_dropped.await.is_err());
    }
}
