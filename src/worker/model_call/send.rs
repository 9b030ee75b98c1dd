//! One request to the model: streamed, previewed, and sent again when that may help.

use tokio::time::{Instant, sleep_until};

use crate::domain::tool::ToolChoice;
use crate::domain::trace::Trace;
use crate::faults::{self, Point};
use crate::metrics::RequestOutcome;
use crate::model::upstream::{Pass, Verdict};
use crate::model::{Head, ModelError, Reply, Request, retry};
use crate::spans::Open;
use crate::worker::model_call::model_try::Try;
use crate::worker::model_call::previews::{Previews, ReplyIds};
use crate::worker::model_call::request_record::Asked;
use crate::worker::run::driver::Driver;
use crate::worker::run::spans::end_chat;
use crate::worker::run::stop_cause::Halt;

impl Driver<'_> {
    /// Says what the next request does not send as it is stored.
    fn report_repairs(&mut self) {
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

    /// Asks within what budgets allow. What the model's side refuses to read again is left out, and
    /// it is asked once more.
    pub(in crate::worker) async fn reply(
        &mut self,
        head: &Head,
        choice: &ToolChoice,
        max_tokens: Option<u32>,
        ids: ReplyIds,
    ) -> Result<Reply, Halt> {
        loop {
            self.report_repairs();
            let prefix = self.report_prefix();
            let messages = self.transcript.messages();
            let request = head.request(messages, choice);
            let form = self.form(messages, choice, max_tokens);
            self.reserve(&request, &form).await?;
            self.asked = Some(self.asking(&request, form, prefix));
            match self.request(request, ids).await {
                Err(Halt::Model(error)) => self.amend(head, error).await?,
                ended => return ended,
            }
        }
    }

    /// Asks until there is a reply, or no hope for one.
    pub(in crate::worker) async fn request(
        &mut self,
        request: Request,
        ids: ReplyIds,
    ) -> Result<Reply, Halt> {
        let worker = self.worker;
        worker.upstream.budget.earn(Instant::now());
        let mut failures = 0;
        loop {
            let pass = self.pass(failures).await?;
            let error = match self.attempt(request.clone(), ids, pass).await? {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            failures += 1;
            self.report_failure(failures, &error);
            // The run can do without a summary, and answers need the retries more.
            let delay = retry::delay_after(failures, &error).filter(|_| !self.asks_for_summary());
            let Some(delay) = delay else {
                return Err(Halt::Model(error));
            };
            let Some(turn) = worker.upstream.budget.spend(Instant::now()) else {
                worker.parts.metrics.model_retry_withheld();
                return Err(Halt::Model(error));
            };
            worker.parts.metrics.model_retried();
            self.reschedule(failures, delay.max(turn)).await?;
        }
    }

    fn report_failure(&self, failures: u32, error: &ModelError) {
        let request_id = error.head().and_then(|(_, head)| head.request_id.as_deref());
        let request_id = request_id
            .or_else(|| self.attempts.last().and_then(|noted| noted.request_id.as_deref()));
        tracing::warn!(
            run.id = %self.run_id(),
            request.id = request_id,
            failures,
            %error,
            "a model request failed"
        );
    }

    /// One try. The outer error ends the run's drive, the inner one may be tried again.
    async fn attempt(
        &mut self,
        request: Request,
        ids: ReplyIds,
        mut pass: Pass<'_>,
    ) -> Result<Result<Reply, ModelError>, Halt> {
        let mut noted = Try::begin();
        let span = self.begin_chat();
        let here = span.as_ref().and_then(Open::place);
        let trace = here.or_else(|| self.run.options.trace.map(Trace::next));
        let request = Request { trace, ..request };
        let streamed = self.stream(request, ids, &mut pass, &mut noted);
        let ended = self.signals.unless_stopped(streamed).await;
        if let Ok(ended) = &ended {
            end_chat(span, ended);
            noted.ended(ended.as_ref().err());
            let verdict = ended.as_ref().err().map_or(Verdict::Well, Verdict::of);
            // Who cannot sum up may well be able to answer.
            if verdict == Verdict::Well || !self.asks_for_summary() {
                pass.tell(verdict, Instant::now());
            }
        }
        let noted = noted.over();
        tracing::debug!(
            run.id = %self.run_id(),
            request.id = noted.request_id,
            status = noted.status,
            error = noted.error,
            head_ms = noted.head_ms,
            duration_ms = noted.duration_ms,
            "a model request ended"
        );
        self.attempts.push(noted);
        drop(pass);
        let metrics = &self.worker.parts.metrics;
        metrics.model_circuit(self.worker.upstream.breaker.circuit());
        metrics.model_request(match &ended {
            Ok(Ok(_)) => RequestOutcome::Replied,
            Ok(Err(_)) => RequestOutcome::Failed,
            Err(_) => RequestOutcome::Stopped,
        });
        ended
    }

    async fn stream(
        &self,
        request: Request,
        ids: ReplyIds,
        pass: &mut Pass<'_>,
        noted: &mut Try,
    ) -> Result<Reply, ModelError> {
        let parts = &self.worker.parts;
        let is_shown = self.asked.as_ref().is_some_and(Asked::is_shown);
        let mut previews = Previews::new(&parts.bus, self.session_id(), self.run_id(), ids);
        let sent = parts.model.send(request).await;
        if let Some((status, head)) = sent.as_ref().err().and_then(ModelError::head) {
            noted.head(status, head);
        }
        let mut stream = sent?;
        noted.head(200, stream.head());
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
                        // It speaks, so others need not wait for the end of its reply.
                        pass.tell(Verdict::Well, Instant::now());
                        if is_shown {
                            previews.push(progress);
                        }
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
