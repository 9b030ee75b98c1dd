//! The response to a request with several events.

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;

use super::AppliedEvent;
use crate::bus::Subscription;
use crate::http::error::ApiError;
use crate::http::extract::idempotency::mark_repeated;
use crate::http::resources::RunResource;
use crate::http::run_response::{
    AwaitedRun, Delivery, FollowedRun, RunResponse, empty_stream, set_preference,
};

/// The results of the events of a request.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct AppliedEvents {
    /// The result of each event, in order.
    data: Vec<AppliedEvent>,
    /// Always `false`.
    has_more: bool,
    /// The run of the message, otherwise of the last decision or result, otherwise of the last stopped
    /// run; absent if the events concern no run.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<RunResource>,
}

/// The results of events that have been applied, and the run that the response follows.
pub(super) struct EventsReply {
    pub(super) data: Vec<AppliedEvent>,
    pub(super) is_repeated: bool,
    pub(super) followed: Option<FollowedRun>,
}

impl EventsReply {
    /// Responds in the form that the request asked for.
    pub(super) async fn deliver(
        self,
        response: &RunResponse<'_>,
        subscription: Subscription,
        delivery: Delivery,
    ) -> Result<Response, ApiError> {
        let Self { data, is_repeated, followed } = self;
        let Some(followed) = followed else {
            return Ok(match delivery {
                Delivery::Stream(format, _) => empty_stream(format),
                Delivery::Wait(..) | Delivery::Respond => json(data, None, is_repeated),
            });
        };
        let stream_after = followed.stream_after;
        let awaited = match delivery {
            Delivery::Stream(format, permit) => {
                return response.stream(&followed, subscription, format, permit).await;
            }
            Delivery::Wait(seconds, _permit) => {
                response.wait(followed.run, subscription, seconds).await?
            }
            Delivery::Respond => AwaitedRun::at_once(followed.run, response.headers),
        };
        let AwaitedRun { run, preference, .. } = awaited;
        let run = RunResource::from(run).streamed_after(stream_after);
        let mut response = json(data, Some(run), is_repeated);
        if let Some(preference) = preference {
            set_preference(&mut response, &preference);
        }
        Ok(response)
    }
}

fn json(data: Vec<AppliedEvent>, run: Option<RunResource>, is_repeated: bool) -> Response {
    let body = AppliedEvents { data, has_more: false, run };
    let mut response = Json(body).into_response();
    mark_repeated(&mut response, is_repeated);
    response
}
