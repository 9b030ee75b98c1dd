//! The forms of the response to a request that starts, continues or reads a run: the run at once, the
//! run after a wait, or a stream of its events.
//!
//! A handler chooses the [`Delivery`] and subscribes to the session before the request takes effect,
//! so that no event is missed.

mod delivery;
mod followed_run;
mod parameters;

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_LOCATION, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tokio::time::{Instant, timeout_at};

use crate::bus::{Signal, Subscription};
use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::domain::run::Run;
use crate::http::error::ApiError;
use crate::http::extract::headers::{RESPOND_ASYNC, prefers_no_wait, resume_after};
use crate::http::extract::idempotency::mark_repeated;
use crate::http::resources::{RunResource, run_path};
use crate::http::server::detached::disconnected;
use crate::http::server::stream_permits::StreamPermit;
use crate::http::state::Api;
use crate::http::stream::event_types::EventTypes;
use crate::http::stream::format::StreamFormat;
use crate::http::stream::request::{StreamPhase, StreamRequest};
use crate::http::stream::response::{respond, streamed};
use crate::service::Error;
use crate::service::deadline::in_time;
use crate::service::lookup::{check_reached, find_run, has_ended};
pub(in crate::http) use delivery::Delivery;
pub(in crate::http) use followed_run::FollowedRun;
pub(in crate::http) use parameters::{PreferWait, ResumedStream};

/// The interval at which a run is read from the database while no signal comes.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// The request to which the response belongs.
#[derive(Debug)]
pub(in crate::http) struct RunResponse<'a> {
    pub(in crate::http) api: &'a Arc<Api>,
    pub(in crate::http) tenant: TenantId,
    pub(in crate::http) headers: &'a HeaderMap,
}

/// A run after a wait.
#[derive(Debug)]
pub(in crate::http) struct AwaitedRun {
    /// The run.
    pub(in crate::http) run: Run,
    /// The value of `Preference-Applied`, if the request has a preference.
    pub(in crate::http) preference: Option<String>,
    /// True if the run settled, or came to wait for the client, during the wait.
    is_idle: bool,
}

impl RunResponse<'_> {
    /// Responds with the run of a request that has taken effect: as a stream, or as JSON with
    /// `status` unless the run settled, or came to wait for the client, during a wait.
    pub(in crate::http) async fn deliver(
        &self,
        followed: FollowedRun,
        subscription: Subscription,
        delivery: Delivery,
        status: StatusCode,
    ) -> Result<Response, ApiError> {
        let FollowedRun { is_repeated, stream_after, .. } = followed;
        let awaited = match delivery {
            Delivery::Stream(format, permit) => {
                return self.stream(&followed, subscription, format, permit).await;
            }
            Delivery::Wait(seconds, _permit) => {
                self.wait(followed.run, subscription, seconds).await?
            }
            Delivery::Respond => AwaitedRun::at_once(followed.run, self.headers),
        };
        Ok(awaited.respond(status, stream_after, is_repeated))
    }

    /// Streams a run. The stream of a repeated request begins after the last event that the client
    /// has seen.
    pub(in crate::http) async fn stream(
        &self,
        followed: &FollowedRun,
        subscription: Subscription,
        format: StreamFormat,
        permit: StreamPermit,
    ) -> Result<Response, ApiError> {
        let run = &followed.run;
        let (after, first_phase) = self.start(followed).await?;
        let request = StreamRequest {
            tenant: self.tenant,
            session_id: run.session_id,
            run_id: Some(run.id),
            after,
            deltas: true,
            types: EventTypes::default(),
            first_phase,
            ends_if_waiting: true,
        };
        let mut response = respond(self.api, request, subscription, permit, format);
        let path = run_path(run.session_id, run.id);
        set(&mut response, LOCATION, &format!("{path}/stream"));
        set(&mut response, CONTENT_LOCATION, &path);
        mark_repeated(&mut response, followed.is_repeated);
        Ok(response)
    }

    /// The event after which the stream begins, and its first phase.
    async fn start(&self, followed: &FollowedRun) -> Result<(i64, StreamPhase), ApiError> {
        let (service, run) = (&self.api.service, &followed.run);
        if followed.is_live {
            return Ok((followed.after, StreamPhase::Live));
        }
        let position = resume_after(self.headers, None)?;
        let source = position.source();
        check_reached(service, self.tenant, run.session_id, position.seq, source).await?;
        let after = position.seq.max(followed.after);
        let has_ended = has_ended(service, self.tenant, run, after).await?;
        Ok((after, if has_ended { StreamPhase::Ended } else { StreamPhase::Backlog }))
    }

    /// Waits until a run has settled or waits for the client, at most for the given time.
    pub(in crate::http) async fn wait(
        &self,
        run: Run,
        subscription: Subscription,
        seconds: u64,
    ) -> Result<AwaitedRun, ApiError> {
        let until = Instant::now() + Duration::from_secs(seconds);
        let run = self.wait_until(run, subscription, until).await?;
        let preference = Some(self.applied(seconds, run.is_idle()));
        Ok(AwaitedRun { is_idle: run.is_idle(), run, preference })
    }

    /// Waits until all these runs have settled, at most for the given time. Returns them and the
    /// value of `Preference-Applied`.
    pub(in crate::http) async fn wait_for_all(
        &self,
        runs: Vec<Run>,
        seconds: u64,
    ) -> Result<(Vec<Run>, String), ApiError> {
        let until = Instant::now() + Duration::from_secs(seconds);
        let mut waited = Vec::with_capacity(runs.len());
        for Run { id, session_id, .. } in runs {
            // Before the run is read: the event that ends the wait must not be missed.
            let subscription = self.api.service.bus.subscribe(session_id);
            let run = in_time(find_run(&self.api.service, self.tenant, session_id, id)).await?;
            waited.push(self.wait_until(run, subscription, until).await?);
        }
        let preference = self.applied(seconds, waited.iter().all(Run::is_idle));
        Ok((waited, preference))
    }

    /// The preference that a wait has applied. The time may have been less than the requested one.
    fn applied(&self, seconds: u64, is_idle: bool) -> String {
        match (is_idle, self.api.draining.is_cancelled()) {
            (true, _) => format!("wait={seconds}"),
            (false, true) => RESPOND_ASYNC.to_owned(),
            (false, false) => format!("{RESPOND_ASYNC}, wait={seconds}"),
        }
    }

    async fn wait_until(
        &self,
        mut run: Run,
        mut subscription: Subscription,
        until: Instant,
    ) -> Result<Run, ApiError> {
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
            // The request has taken effect: an unavailable database must not make the client repeat
            // it. The loop continues until the time is up.
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
        Ok(run)
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

impl AwaitedRun {
    /// The run without a wait, which a request can also prefer.
    pub(in crate::http) fn at_once(run: Run, headers: &HeaderMap) -> Self {
        let preference = prefers_no_wait(headers).then(|| RESPOND_ASYNC.to_owned());
        Self { run, preference, is_idle: false }
    }

    /// Responds with the run: 200 if it settled or waits for the client after a wait, otherwise the
    /// given status.
    pub(in crate::http) fn respond(
        self,
        status: StatusCode,
        stream_after: Option<i64>,
        is_repeated: bool,
    ) -> Response {
        let Self { run, preference, is_idle } = self;
        let status = if is_idle { StatusCode::OK } else { status };
        let path = run_path(run.session_id, run.id);
        let resource = RunResource::from(run).streamed_after(stream_after);
        let mut response = (status, Json(resource)).into_response();
        let location = if status == StatusCode::OK { CONTENT_LOCATION } else { LOCATION };
        set(&mut response, location, &path);
        if let Some(preference) = preference {
            set_preference(&mut response, &preference);
        }
        mark_repeated(&mut response, is_repeated);
        response
    }
}

/// A stream without events, for a request that concerns no run.
pub(in crate::http) fn empty_stream(format: StreamFormat) -> Response {
    streamed(format.first_bytes(false).into(), format)
}

/// Sets `Preference-Applied`.
pub(in crate::http) fn set_preference(response: &mut Response, preference: &str) {
    set(response, PREFERENCE_APPLIED, preference);
}

/// Sets a header. Paths of ids and numbers are always valid values.
fn set(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}
