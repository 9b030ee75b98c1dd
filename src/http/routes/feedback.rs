//! Feedback of users on replies of the model.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse as _;
use axum::response::Response;
use http::StatusCode;

use crate::domain::feedback::Feedback;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::json_body::JsonBody;
use crate::http::extract::path::MessagePath;
use crate::http::state::Api;
use crate::service::feedback::{self, PutFeedback, RatedReply};

/// Stores the feedback of a user on a reply of the model, in place of an earlier one.
///
/// It appears in the history and in exports. The event `user.feedback` and the webhook event
/// `message.feedback` report it. The same feedback again has no effect.
#[utoipa::path(
    put, path = "/sessions/{session_id}/messages/{message_id}/feedback", operation_id = "put_feedback",
    tag = "messages",
    params(("session_id" = String, Path, description = "The session."),
           ("message_id" = String, Path, description = "The id of a reply of the model.")),
    request_body = PutFeedback,
    responses(
        (status = 200, description = "The feedback.", body = Feedback),
        (status = 400, description = "`bad_json`, `body_incomplete`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`, `message_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`draining`, `database_unavailable`", body = Problem, content_type = "application/problem+json"),
        (status = 507, description = "`storage_quota_exceeded`: the tenant stores the maximum number of bytes; `quota` names the resource.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn put_feedback(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: MessagePath,
    body: JsonBody<PutFeedback>,
) -> Result<Response, ApiError> {
    let MessagePath(session_id, message_id) = path;
    let JsonBody(body) = body;
    let reply = RatedReply { tenant: caller.tenant, session_id, message_id: &message_id };
    let feedback = feedback::put_feedback(&api.service, reply, body).await?;
    Ok(Json(feedback).into_response())
}

/// Removes the feedback on a reply, if there is any.
#[utoipa::path(
    delete, path = "/sessions/{session_id}/messages/{message_id}/feedback",
    operation_id = "delete_feedback", tag = "messages",
    params(("session_id" = String, Path, description = "The session."),
           ("message_id" = String, Path, description = "The id of a reply of the model.")),
    responses(
        (status = 204, description = "The reply has no feedback."),
        (status = 404, description = "`session_not_found`, `message_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`draining`, `database_unavailable`", body = Problem, content_type = "application/problem+json"),
        (status = 507, description = "`storage_quota_exceeded`: the tenant stores the maximum number of bytes; `quota` names the resource.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn delete_feedback(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: MessagePath,
) -> Result<StatusCode, ApiError> {
    let MessagePath(session_id, message_id) = path;
    let reply = RatedReply { tenant: caller.tenant, session_id, message_id: &message_id };
    feedback::delete_feedback(&api.service, reply).await?;
    Ok(StatusCode::NO_CONTENT)
}
