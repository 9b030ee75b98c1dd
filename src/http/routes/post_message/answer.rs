//! The three forms of an answer: accepted, streamed, waited for.

use std::time::Duration;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_LOCATION, LOCATION};
use http::{HeaderName, HeaderValue, StatusCode};
use tokio::time::{Instant, timeout_at};

use super::{Post, Taken};
use crate::bus::{Signal, Subscription};
use crate::domain::run::Run;
use crate::http::error::ApiError;
use crate::http::extract::headers::resume_after;
use crate::http::extract::idempotency::mark_repeated;
use crate::http::resources::{RunResource, run_path};
use crate::http::routes::runs::{is_over, known_run};
use crate::http::server::deadline::in_time;
use crate::http::server::detached::disconnected;
use crate::http::server::stream_permits::StreamPermit;
use crate::http::stream::event_types::EventTypes;
use crate::http::stream::form::StreamForm;
use crate::http::stream::sse::{Follow, Phase, respond};
use crate::service::Error;
use crate::service::lookup::check_reached;

/// How often a run that is waited for is looked at when nothing is told of it.
const LOOK_EVERY: Duration = Duration::from_secs(5);

impl Post<'_> {
    /// Streams the run. A repeated post goes on where the client says that it was.
    pub(super) async fn stream(
        &self,
        taken: &Taken,
        subscription: Subscription,
        (form, place): (StreamForm, StreamPermit),
    ) -> Result<Response, ApiError> {
        let run = &taken.run;
        let (after, begins) = self.begin(taken).await?;
        let follow = Follow {
            tenant: self.tenant,
            session_id: run.session_id,
            run_id: Some(run.id),
            after,
            deltas: true,
            types: EventTypes::default(),
            begins,
            form,
        };
        let mut response = respond(self.api, follow, subscription, place);
        let path = run_path(run.session_id, run.id);
        set(&mut response, LOCATION, &format!("{path}/stream"));
        set(&mut response, CONTENT_LOCATION, &path);
        mark_repeated(&mut response, taken.is_repeated);
        Ok(response)
    }

    /// A new run is told by the bus alone, which was subscribed to before it was accepted.
    async fn begin(&self, taken: &Taken) -> Result<(i64, Phase), ApiError> {
        let run = &taken.run;
        let before_run = run.accepted_seq - 1;
        if !taken.is_repeated {
            return Ok((before_run, Phase::Live));
        }
        let after = resume_after(self.headers, None)?;
        check_reached(&self.api.service, self.tenant, run.session_id, after).await?;
        let after = after.max(before_run);
        let is_over = is_over(self.api, self.tenant, run, after).await?;
        Ok((after, if is_over { Phase::Ended } else { Phase::Backlog }))
    }

    /// Answers with the run at rest, settled or waiting for somebody, or with 202 when it does not
    /// come to rest in time.
    pub(super) async fn wait(
        &self,
        taken: Taken,
        mut subscription: Subscription,
        seconds: u64,
    ) -> Result<Response, ApiError> {
        let until = Instant::now() + Duration::from_secs(seconds);
        let Run { id, session_id, .. } = taken.run;
        let mut run = taken.run;
        while !run.is_at_rest() {
            let ended = async {
                loop {
                    match subscription.next().await {
                        Some(Signal::Event(frame))
                            if frame.run_id == Some(id) && frame.ends_run() =>
                        {
                            break;
                        }
                        Some(Signal::Event(_) | Signal::Preview(_)) => {}
                        Some(Signal::Stored(_) | Signal::Look) => break,
                        // Signals were missed; the database knows.
                        None => {
                            subscription = self.api.bus.subscribe(session_id);
                            break;
                        }
                    }
                }
            };
            let is_late = tokio::select! {
                in_time = timeout_at(until.min(Instant::now() + LOOK_EVERY), ended) => {
                    in_time.is_err() && Instant::now() >= until
                }
                () = self.api.draining.cancelled() => true,
                // Nobody hears what follows.
                () = disconnected() => break,
            };
            // The message is accepted: a database that is away must not make the client post it
            // again. It is waited for, as the run is.
            match in_time(known_run(self.api, self.tenant, session_id, id)).await {
                Ok(now) => run = now,
                Err(
                    gone @ (ApiError::Service(Error::SessionNotFound(_))
                    | ApiError::Service(Error::RunNotFound(_))),
                ) => {
                    return Err(gone);
                }
                Err(error) => tracing::warn!(run.id = %id, ?error, "a run cannot be looked at"),
            }
            if is_late {
                break;
            }
        }
        let is_repeated = taken.is_repeated;
        if !run.is_at_rest() {
            let mut response = accepted(Taken { run, is_repeated });
            if !self.api.draining.is_cancelled() {
                // So that who is kept waiting for less than they asked learns of it.
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
}

const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// 202 with the run.
pub(super) fn accepted(taken: Taken) -> Response {
    let path = run_path(taken.run.session_id, taken.run.id);
    let resource = RunResource::from(taken.run);
    let mut response = (StatusCode::ACCEPTED, Json(resource)).into_response();
    set(&mut response, LOCATION, &path);
    set(&mut response, PREFERENCE_APPLIED, "respond-async");
    mark_repeated(&mut response, taken.is_repeated);
    response
}

/// Paths of ids and numbers always make header values.
fn set(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}
