//! One request to the model: streamed, previewed, and sent again when that may help.

use tokio::time::{Instant, sleep, sleep_until};

use super::drive::Driver;
use super::halt::Halt;
use super::previews::{Previews, ReplyIds};
use crate::domain::event::{EventBody, NewEvent};
use crate::faults::{self, Point};
use crate::metrics::RequestOutcome;
use crate::model::{ModelError, Reply, Request, retry};

impl Driver<'_> {
    /// Says what the next request does not send as it is stored.
    pub(super) fn report_repairs(&mut self) {
        for (kind, seq) in self.transcript.take_repairs() {
            self.worker.parts.metrics.history_repaired(kind);
            tracing::warn!(
                session.id = %self.session_id(),
                repair.kind = kind.as_str(),
                message.seq = seq,
                "a stored history is sent repaired"
            );
        }
    }

    /// Asks until there is a reply, or no hope for one.
    pub(super) async fn request(&mut self, request: Request, ids: ReplyIds) -> Result<Reply, Halt> {
        let mut failures = 0;
        loop {
            let error = match self.attempt(request.clone(), ids).await? {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            failures += 1;
            tracing::warn!(run.id = %self.run_id(), failures, %error, "a model request failed");
            let Some(delay) = retry::delay_after(failures, &error) else {
                return Err(Halt::Model(error));
            };
            self.reschedule(failures, delay).await?;
        }
    }

    async fn reschedule(&mut self, failures: u32, delay: std::time::Duration) -> Result<(), Halt> {
        let retry_at = jiff::Timestamp::now()
            .checked_add(jiff::SignedDuration::try_from(delay).unwrap_or_default())
            .unwrap_or(jiff::Timestamp::MAX);
        let event = NewEvent::new(&EventBody::StatusRescheduled { attempt: failures, retry_at });
        self.tell(&[event]).await?;
        let signals = self.signals.clone();
        signals.unless_draining(sleep(delay)).await
    }

    /// One try. The outer error ends the run's drive, the inner one may be tried again.
    async fn attempt(
        &self,
        request: Request,
        ids: ReplyIds,
    ) -> Result<Result<Reply, ModelError>, Halt> {
        let ended = self.signals.unless_stopped(self.stream(request, ids)).await;
        self.worker.parts.metrics.model_request(match &ended {
            Ok(Ok(_)) => RequestOutcome::Replied,
            Ok(Err(_)) => RequestOutcome::Failed,
            Err(_) => RequestOutcome::Stopped,
        });
        ended
    }

    async fn stream(&self, request: Request, ids: ReplyIds) -> Result<Reply, ModelError> {
        let parts = &self.worker.parts;
        let mut previews = Previews::new(&parts.bus, self.session_id(), self.run_id(), ids);
        let mut stream = parts.model.send(request).await?;
        faults::point(Point::RequestSent).await;
        loop {
            let flush_at = previews.flush_at();
            tokio::select! {
                biased;
                () = sleep_until(flush_at.unwrap_or_else(Instant::now)), if flush_at.is_some() => {
                    previews.flush();
                }
                progress = stream.next() => match progress? {
                    Some(progress) => {
                        previews.push(progress);
                        faults::point(Point::InReply).await;
                    }
                    None => break,
                },
            }
        }
        previews.flush();
        stream.finish()
    }
}
