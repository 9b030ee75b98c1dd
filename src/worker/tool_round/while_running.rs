//! Work during which calls continue to run.

use std::pin::pin;

use futures::future::{Either, select};
use futures::stream::{Stream, StreamExt as _};

/// Does some work, and meanwhile polls calls that run. Returns the result of the work and the calls that
/// have ended. Calls that are not polled keep the connections to the database that they use, so work that
/// needs a connection of the same pool could wait for them without end.
pub(super) async fn while_running<T, C>(
    work: impl Future<Output = T>,
    running: &mut (impl Stream<Item = Vec<C>> + Unpin),
) -> (T, Vec<C>) {
    let mut work = pin!(work);
    let mut ended = Vec::new();
    loop {
        match select(work.as_mut(), running.next()).await {
            Either::Left((done, _)) => return (done, ended),
            Either::Right((Some(more), _)) => ended.extend(more),
            Either::Right((None, _)) => return (work.await, ended),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, stream};
    use tokio::sync::Semaphore;
    use tokio::task::yield_now;

    use super::*;

    #[tokio::test]
    async fn work_gets_the_connection_that_a_running_call_holds() {
        let connections = Semaphore::new(1);
        let call = async {
            let _connection = connections.acquire().await.unwrap();
            yield_now().await;
            "ended"
        };
        let mut running = Box::pin(stream::iter([call]).buffer_unordered(2).ready_chunks(2));
        assert!(running.next().now_or_never().is_none(), "the call holds the connection");
        let work = async {
            let _connection = connections.acquire().await.unwrap();
            "recorded"
        };
        assert_eq!(while_running(work, &mut running).await, ("recorded", vec!["ended"]));
    }

    #[tokio::test]
    async fn work_continues_when_all_calls_have_ended() {
        let mut running = stream::iter([vec![1], vec![2]]);
        let work = async {
            for _ in 0..5 {
                yield_now().await;
            }
        };
        assert_eq!(while_running(work, &mut running).await, ((), vec![1, 2]));
    }
}
