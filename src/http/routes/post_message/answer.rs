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
use crate::http::extract::resume_after;
use crate::http::resources::{RunResource, run_path};
use crate::http::routes::runs::known_run;
use crate::http::sse::{Follow, respond};

impl Post<'_> {
    /// Streams the run. A repeated post goes on where the client says that it was.
    pub(super) fn stream(
        &self,
        taken: &Taken,
        subscription: Subscription,
    ) -> Result<Response, ApiError> {
        let run = &taken.run;
        let after = if taken.is_repeated {
            resume_after(self.headers, None)?
        } else {
            0
        };
        let follow = Follow {
            session_id: run.session_id,
            run_id: Some(run.id),
            after: after.max(run.accepted_seq - 1),
            deltas: true,
            is_new: !taken.is_repeated,
        };
        let mut response = respond(self.api, follow, subscription)?;
        let path = run_path(run.session_id, run.id);
        set(&mut response, LOCATION, &format!("{path}/stream"));
        set(&mut response, CONTENT_LOCATION, &path);
        mark_repeated(&mut response, taken.is_repeated);
        Ok(response)
    }

    /// Answers with the settled run, or with 202 when it does not settle in time.
    pub(super) async fn wait(
        &self,
        taken: Taken,
        mut subscription: Subscription,
        seconds: u64,
    ) -> Result<Response, ApiError> {
        let until = Instant::now() + Duration::from_secs(seconds);
        let Run { id, session_id, .. } = taken.run;
        let mut run = taken.run;
        while !run.status.is_terminal() {
            let ended = async {
                loop {
                    match subscription.next().await {
                        Some(Signal::Event(frame))
                            if frame.run_id == Some(id) && frame.ends_run() =>
                        {
                            break;
                        }
                        Some(_) => {}
                        // Signals were missed; the database knows.
                        None => {
                            subscription = self.api.bus.subscribe(session_id);
                            break;
                        }
                    }
                }
            };
            let is_late = tokio::select! {
                in_time = timeout_at(until, ended) => in_time.is_err(),
                () = self.api.draining.cancelled() => true,
            };
            run = known_run(self.api, self.tenant, session_id, id).await?;
            if is_late {
                break;
            }
        }
        let is_repeated = taken.is_repeated;
        if !run.status.is_terminal() {
            return Ok(accepted(Taken { run, is_repeated }));
        }
        let path = run_path(session_id, id);
        let mut response = Json(RunResource::from(run)).into_response();
        set(&mut response, CONTENT_LOCATION, &path);
        set(
            &mut response,
            PREFERENCE_APPLIED,
            &format!("wait={seconds}"),
        );
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

fn mark_repeated(response: &mut Response, is_repeated: bool) {
    if is_repeated {
        set(
            response,
            HeaderName::from_static("idempotency-replayed"),
            "true",
        );
    }
}

/// Paths of ids and numbers always make header values.
fn set(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}
