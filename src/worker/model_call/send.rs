//! One request to the model: sent, streamed to readers, and sent again where that can help.
//!
//! The step before the request may still be being committed. Readers receive nothing of the reply
//! before the commit, and the run does not go on. If the commit fails, the request is aborted. Then no
//! record of it is stored: a reply of which something was received may have been billed, which is
//! logged.

use std::pin::pin;

use futures::FutureExt as _;
use tokio::time::{Instant, sleep_until};

use super::deadline::RequestDeadline;
use super::model_try::TryRecorder;
use super::parameters::{ReplyIds, RequestParameters};
use super::previews::Previews;
use super::spans::{begin_request_span, end_request_span};
use super::{ModelCalls, RequestInFlight};
use crate::domain::request::RequestForm;
use crate::domain::trace::Trace;
use crate::faults::{self, Point};
use crate::metrics::RequestOutcome;
use crate::model::server_health::{Health, Pass};
use crate::model::{ModelError, Progress, Reply, ReplyStream, Request, retry};
use crate::spans::OpenSpan;
use crate::worker::run::state::RunState;
use crate::worker::run::step_writer::StepWriter;
use crate::worker::run::stop_cause::StopCause;

/// A try of a request.
struct RequestTry {
    request: Request,
    ids: ReplyIds,
    deadline: RequestDeadline,
}

impl ModelCalls<'_> {
    /// Sends the next request of the loop, as far as budgets allow. If the model's server refuses a
    /// part of the history, that part is left out and the request is sent once more.
    pub(in crate::worker) async fn reply(
        &mut self,
        state: &mut RunState<'_>,
        parameters: RequestParameters<'_>,
    ) -> Result<Reply, StopCause> {
        let RequestParameters { choice, ids, .. } = parameters;
        loop {
            let (head, max_tokens) = self.head_of(&parameters)?;
            let writer = &mut state.writer;
            if self.needs_reservation(writer) {
                // The budget counts what the step before the request has used.
                writer.finish().await?;
            }
            self.report_repairs(writer);
            let found = head.found_tools(writer.transcript.messages().text);
            let prefix = self.report_prefix(writer, choice, &found);
            let messages = writer.transcript.messages();
            let request = head.request(messages, choice);
            let unread = head.unread_bytes(messages.text);
            let form = self.form(writer, messages, choice, max_tokens);
            let form = RequestForm { unread, ..form };
            self.reserve(writer, &request, &form).await?;
            let transcript = &mut writer.transcript;
            let start = head.messages_start(transcript.messages().text).unwrap_or_default();
            let body_hash = transcript.hash_body(&request.body, start);
            let in_flight = RequestInFlight::hashed(&request, body_hash, form, transcript.seq());
            self.begin(RequestInFlight { prefix: Some(prefix), ..in_flight });
            match self.request(state, request, ids).await {
                Err(StopCause::Model(error)) if self.may_fall_back(&error) => {
                    Box::pin(self.fall_back(state, &error)).await?;
                }
                Err(StopCause::Model(error)) => {
                    Box::pin(self.leave_out_refused(state, head, error)).await?;
                }
                ended => return ended,
            }
        }
    }

    /// Sends a request until there is a reply, or no further try can help.
    pub(in crate::worker) async fn request(
        &mut self,
        state: &mut RunState<'_>,
        request: Request,
        ids: ReplyIds,
    ) -> Result<Reply, StopCause> {
        let services = self.run.services;
        self.run.model().health.budget.earn(Instant::now());
        let is_answer = self.in_flight.as_ref().is_some_and(RequestInFlight::is_answer);
        let deadline =
            if is_answer { RequestDeadline::of(&state.progress) } else { RequestDeadline::NONE };
        let mut failures = 0;
        loop {
            let pass = self.permit(state, failures, deadline).await?;
            let permit = self.request_permit(state, deadline).await?;
            let next_try = RequestTry { request: request.clone(), ids, deadline };
            let tried = self.try_once(&mut state.writer, next_try, pass).await?;
            drop(permit);
            let error = match tried {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            state.writer.finish().await?;
            failures += 1;
            self.log_failure(failures, &error);
            // The run can continue without a summary, and answers need the retry budget more.
            let is_last_try = self.is_summary()
                || (self.may_fall_back(&error) && retry::gives_way_after(failures, &error));
            let delay = retry::delay_after(failures, &error).filter(|_| !is_last_try);
            let Some(delay) = delay else {
                return Err(StopCause::Model(error));
            };
            let Some(turn) = self.run.model().health.budget.spend(Instant::now()) else {
                services.metrics.model_retry_withheld();
                return Err(StopCause::Model(error));
            };
            services.metrics.model_retried();
            self.reserve_again(state, &request).await?;
            self.reschedule(state, failures, delay.max(turn), deadline).await?;
        }
    }

    fn log_failure(&self, failures: u32, error: &ModelError) {
        let request_id = error.head().and_then(|(_, head)| head.request_id.as_deref());
        let request_id =
            request_id.or_else(|| self.tries.last().and_then(|last| last.request_id.as_deref()));
        tracing::warn!(
            run.id = %self.run.run_id(),
            request.id = request_id,
            model = self.run.settings().model,
            model.provider = self.run.model().server.label(),
            failures,
            %error,
            "model request failed"
        );
    }

    /// One try. The outer error stops the run; after the inner one the request may be tried again.
    async fn try_once(
        &mut self,
        writer: &mut StepWriter<'_>,
        next_try: RequestTry,
        mut pass: Pass<'_>,
    ) -> Result<Result<Reply, ModelError>, StopCause> {
        let RequestTry { request, ids, deadline } = next_try;
        let mut recorder = TryRecorder::begin();
        let span = begin_request_span(self.run);
        let trace = span.as_ref().and_then(OpenSpan::place);
        let trace = trace.or_else(|| self.run.claim.options.trace.map(Trace::next));
        let request = Request { trace, ..request };
        let signals = &self.run.signals;
        let streamed = self.stream(writer, (request, ids), &mut pass, &mut recorder);
        let streamed =
            deadline.limit(streamed).map(|done| done.unwrap_or_else(|error| Ok(Err(error))));
        let ended = signals.unless_stopped(streamed).await.flatten();
        match &ended {
            Ok(Ok(reply)) => {
                self.streaming = None;
                self.unrecorded = Some(reply.usage);
            }
            Ok(Err(_)) => drop(self.abandon_try()),
            Err(_) => self.interrupt_try(ids),
        }
        if let Ok(ended) = &ended {
            end_request_span(span, ended);
            recorder.ended(ended.as_ref().err());
            let health = ended.as_ref().err().map_or(Health::Healthy, Health::of);
            // A server that cannot summarize may be able to answer.
            if health == Health::Healthy || !self.is_summary() {
                pass.report(health, Instant::now());
            }
        }
        let finished = recorder.finish();
        tracing::debug!(
            run.id = %self.run.run_id(),
            request.id = finished.request_id,
            status = finished.status,
            error = finished.error,
            head_ms = finished.head_ms,
            duration_ms = finished.duration_ms,
            "model request ended"
        );
        self.tries.push(finished);
        drop(pass);
        let outcome = match &ended {
            Ok(Ok(_)) => RequestOutcome::Replied,
            Ok(Err(_)) => RequestOutcome::Failed,
            Err(_) => RequestOutcome::Stopped,
        };
        self.run.services.count_request(self.run.model().server, outcome);
        ended
    }

    async fn stream(
        &mut self,
        writer: &mut StepWriter<'_>,
        (request, ids): (Request, ReplyIds),
        pass: &mut Pass<'_>,
        recorder: &mut TryRecorder,
    ) -> Result<Result<Reply, ModelError>, StopCause> {
        let (run, services) = (self.run, self.run.services);
        let has_previews = self.in_flight.as_ref().is_some_and(RequestInFlight::is_answer);
        let sent = self.send(writer, request).await?;
        if let Some((status, head)) = sent.as_ref().err().and_then(ModelError::head) {
            recorder.head(status, head);
        }
        let stream = match sent {
            Ok(stream) => self.streaming.insert(stream),
            Err(error) => return Ok(Err(error)),
        };
        recorder.head(200, stream.head());
        faults::point(Point::RequestSent).await;
        let mut previews = Previews::new(&services.bus, run.session_id(), run.run_id(), ids);
        previews.hold_if(writer.is_pending());
        loop {
            let flush_at = previews.flush_at();
            tokio::select! {
                biased;
                committed = writer.finish(), if writer.is_pending() => {
                    committed?;
                    self.reserve_late(writer).await?;
                    previews.release();
                }
                () = sleep_until(flush_at.unwrap_or_else(Instant::now)), if flush_at.is_some() => {
                    previews.flush();
                }
                progress = next(&mut self.streaming) => match progress {
                    Ok(Some(progress)) => {
                        // The server works, so other runs need not wait for the end of this reply.
                        pass.report(Health::Healthy, Instant::now());
                        if has_previews {
                            previews.push(progress);
                        }
                        faults::point(Point::InReply).await;
                    }
                    Ok(None) => break,
                    Err(error) => return Ok(Err(error)),
                },
            }
        }
        if writer.is_pending() {
            writer.finish().await?;
            self.reserve_late(writer).await?;
            previews.release();
        }
        previews.flush();
        Ok(self.streaming.as_ref().map_or(Err(ModelError::Truncated), ReplyStream::finish))
    }

    /// Sends a request, while the step before it is being committed.
    async fn send(
        &self,
        writer: &mut StepWriter<'_>,
        request: Request,
    ) -> Result<Result<ReplyStream, ModelError>, StopCause> {
        let mut sending = pin!(self.run.model().server.client.send(request));
        loop {
            tokio::select! {
                biased;
                committed = writer.finish(), if writer.is_pending() => {
                    committed?;
                    self.reserve_late(writer).await?;
                }
                sent = &mut sending => return Ok(sent),
            }
        }
    }
}

/// The next part of a reply.
async fn next(streaming: &mut Option<ReplyStream>) -> Result<Option<Progress>, ModelError> {
    match streaming {
        Some(stream) => stream.next().await,
        None => Ok(None),
    }
}
