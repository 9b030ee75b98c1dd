//! The three forms of the response: the run, a stream of its events, or the settled run.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_LOCATION, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tokio::time::{Instant, timeout_at};

use crate::bus::{Signal, Subscription};
use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::http::error::ApiError;
use crate::http::extract::headers::resume_after;
use crate::http::extract::idempotency::mark_repeated;
use crate::http::resources::{RunResource, run_path};
use crate::http::server::detached::disconnected;
use crate::http::server::stream_permits::StreamPermit;
use crate::http::state::Api;
use crate::http::stream::event_types::EventTypes;
use crate::http::stream::format::StreamFormat;
use crate::http::stream::request::{StreamPhase, StreamRequest};
use crate::http::stream::sse::respond;
use crate::service::Error;
use crate::service::deadline::in_time;
use crate::service::lookup::{check_reached, find_run, has_ended};
use crate::service::messages::PostedRun;

/// The interval at which a run is read from the database while no signal comes.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// The request to which the response belongs.
pub(super) struct PostResponse<'a> {
    pub(super) api: &'a Arc<Api>,
    pub(super) tenant: TenantId,
    pub(super) headers: &'a HeaderMap,
}

impl PostResponse<'_> {
    /// Streams the run. The stream of a repeated request begins after the last event that the client
    /// has seen.
    pub(super) async fn stream(
        &self,
        posted: &PostedRun,
        subscription: Subscription,
        format: StreamFormat,
        permit: StreamPermit,
    ) -> Result<Response, ApiError> {
        let run = &posted.run;
        let (after, first_phase) = self.start(posted).await?;
        let request = StreamRequest {
            tenant: self.tenant,
            session_id: run.session_id,
            run_id: Some(run.id),
            after,
            deltas: true,
            types: EventTypes::default(),
            first_phase,
            format,
        };
        let mut response = respond(self.api, request, subscription, permit);
        let path = run_path(run.session_id, run.id);
        set(&mut response, LOCATION, &format!("{path}/stream"));
        set(&mut response, CONTENT_LOCATION, &path);
        mark_repeated(&mut response, posted.is_repeated);
        Ok(response)
    }

    /// The event after which the stream begins, and its first phase. All events of a new run come by
    /// the bus, to which the request subscribed before the message was accepted.
    async fn start(&self, posted: &PostedRun) -> Result<(i64, StreamPhase), ApiError> {
        let (service, run) = (&self.api.service, &posted.run);
        let before_run = run.accepted_seq - 1;
        if !posted.is_repeated {
            return Ok((before_run, StreamPhase::Live));
        }
        let after = resume_after(self.headers, None)?;
        check_reached(service, self.tenant, run.session_id, after).await?;
        let after = after.max(before_run);
        let has_ended = has_ended(service, self.tenant, run, after).await?;
        Ok((after, if has_ended { StreamPhase::Ended } else { StreamPhase::Backlog }))
    }

    /// Responds with the run once it has settled or waits for the client, or with 202 after the given
    /// time.
    pub(super) async fn wait(
        &self,
        posted: PostedRun,
        mut subscription: Subscription,
        seconds: u64,
    ) -> Result<Response, ApiError> {
        let until = Instant::now() + Duration::from_secs(seconds);
        let PostedRun { mut run, is_repeated } = posted;
        let (id, session_id) = (run.id, run.session_id);
        while !run.is_idle() {
            let is_late = tokio::select! {
                in_time = timeout_at(
                    until.min(Instant::now() + POLL_INTERVAL),
                    self.run_changed(&mut subscription, session_id, id),
                ) => in_time.is_err() && Instant::now() >= until,
                () = self.api.draining.cancelled() => true,
                // The client has closed its connection.
                () = disconnected() => break,
            };
            // The message is accepted: an unavailable database must not make the client post it
            // again. The loop continues until the time is up.
            let read = find_run(&self.api.service, self.tenant, session_id, id);
            match in_time(read).await {
                Ok(now) => run = now,
                Err(gone @ (Error::SessionNotFound(_) | Error::RunNotFound(_))) => {
                    return Err(gone.into());
                }
                Err(error) => tracing::warn!(run.id = %id, ?error, "a run could not be read"),
            }
            if is_late {
                break;
            }
        }
        if !run.is_idle() {
            let mut response = accepted(PostedRun { run, is_repeated });
            if !self.api.draining.is_cancelled() {
                // The applied time may be less than the requested one.
                let applied = format!("respond-async, wait={seconds}");
                set(&mut response, PREFERENCE_APPLIED, &applied);
            }
            return Ok(response);
        }
        let path = run_path(session_id, id);
        let mut response = Json(RunResource::from(run)).into_response();
        set(&mut response, CONTENT_LOCATION, &path);
        set(&mut response, PREFERENCE_APPLIED, &format!("wait={seconds}"));
        mark_repeated(&mut response, is_repeated);
        Ok(response)
    }

    /// Returns when a signal says that the run may have settled.
    async fn run_changed(
        &self,
        subscription: &mut Subscription,
        session_id: SessionId,
        run_id: RunId,
    ) {
        loop {
            match subscription.next().await {
                Some(Signal::Event(frame)) if frame.run_id == Some(run_id) && frame.ends_run() => {
                    return;
                }
                Some(Signal::Event(_) | Signal::Preview(_)) => {}
                Some(Signal::Stored(_) | Signal::Resync) => return,
                // Signals were missed; the database has the current state.
                None => {
                    *subscription = self.api.service.bus.subscribe(session_id);
                    return;
                }
            }
        }
    }
}

const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// Responds with 202 and the run.
pub(super) fn accepted(posted: PostedRun) -> Response {
    let path = run_path(posted.run.session_id, posted.run.id);
    let resource = RunResource::from(posted.run);
    let mut response = (StatusCode::ACCEPTED, Json(resource)).into_response();
    set(&mut response, LOCATION, &path);
    set(&mut response, PREFERENCE_APPLIED, "respond-async");
    mark_repeated(&mut response, posted.is_repeated);
    response
}

/// Sets a header. Paths of ids and numbers are always valid values.
fn set(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}
