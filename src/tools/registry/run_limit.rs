//! The end of calls at the limit of seconds of their run.

use std::pin::pin;
use std::thread;
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use crate::tools::error::ToolError;
use crate::tools::tool::{RunLimit, ToolContext};

/// The time that a stopped call has to end by itself, so that its result has what it did so far.
const TO_END: Duration = Duration::from_secs(2);

/// The result of work that may panic.
type Caught<T> = thread::Result<Result<T, ToolError>>;

/// Runs the work of a call until its run reaches the limit of seconds. The work is then stopped, and
/// the outer error says so.
pub(super) async fn within_run_limit<T>(
    name: &str,
    context: &ToolContext,
    work: impl Future<Output = Caught<T>>,
) -> Result<Caught<T>, ToolError> {
    let Some(RunLimit { at, seconds }) = context.run_limit else { return Ok(work.await) };
    let limit = format!("the run reached its limit of {seconds} s");
    if at <= Instant::now() {
        return Err(ToolError::Failed(format!("{name} was not started: {limit}")));
    }
    let mut work = pin!(work);
    if let Ok(done) = timeout_at(at, &mut work).await {
        return Ok(done);
    }
    context.stop.cancel();
    match timeout(TO_END, work).await {
        Ok(Ok(Err(ended))) => {
            Err(ToolError::Failed(format!("{name} was stopped: {limit}\n{ended}")))
        }
        Ok(done) => Ok(done),
        Err(_elapsed) => Err(ToolError::Failed(format!(
            "{name} was stopped: {limit}; a part of the work may have been done"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;
    use crate::tools::workspace::Workspace;

    fn context(seconds: u32) -> ToolContext {
        let at = Instant::now() + Duration::from_secs(seconds.into());
        let run_limit = Some(RunLimit { at, seconds });
        ToolContext { run_limit, ..ToolContext::without_run(Workspace::named("unused".into())) }
    }

    fn failed(text: &str) -> ToolError {
        ToolError::Failed(text.to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_stopped_at_the_limit_of_its_run() {
        let context = context(3);
        let stop = context.stop.clone();
        let start = Instant::now();
        let work = async {
            stop.cancelled().await;
            Ok(Err::<(), _>(failed("so far: 7 lines")))
        };
        let stopped = within_run_limit("Bash", &context, work).await.unwrap_err();
        let text = "Bash was stopped: the run reached its limit of 3 s\nso far: 7 lines";
        assert_eq!((stopped, start.elapsed().as_secs()), (failed(text), 3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_does_not_end_by_itself_is_abandoned() {
        let start = Instant::now();
        let work = async {
            sleep(Duration::from_mins(10)).await;
            Ok(Ok(()))
        };
        let stopped = within_run_limit("WebFetch", &context(3), work).await.unwrap_err();
        let text = "WebFetch was stopped: the run reached its limit of 3 s; a part of the work may \
                    have been done";
        assert_eq!((stopped, start.elapsed().as_secs()), (failed(text), 5));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_in_time_is_unchanged_and_a_late_one_is_not_started() {
        let done = within_run_limit("LS", &context(3), async { Ok(Ok(7)) }).await;
        assert!(matches!(done, Ok(Ok(Ok(7)))));
        let late = async { panic!("the call was started") };
        let stopped = within_run_limit::<()>("LS", &context(0), late).await.unwrap_err();
        assert_eq!(stopped, failed("LS was not started: the run reached its limit of 0 s"));
    }
}
