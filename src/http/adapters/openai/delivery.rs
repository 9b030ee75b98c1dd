//! The delivery of an answer: as a stream, or as a document when the run has settled or waits.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderName, HeaderValue, StatusCode};
use serde::Serialize;

use super::answer_slot::AnswerSlot;
use crate::domain::ids::{SessionId, TenantId};
use crate::http::adapters::disconnect::DisconnectGuard;
use crate::http::adapters::run_stream::stream_run;
use crate::http::adapters::turn::AppliedTurn;
use crate::http::error::{ApiError, OpenAiError};
use crate::http::server::stream_permits::StreamPermit;
use crate::http::state::Api;
use crate::http::stream::encoder::StreamEncoder;

/// The header with the id of the session.
const SESSION_ID: HeaderName = HeaderName::from_static("x-session-id");
/// The header by which SDKs do not repeat a request.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// The response to a request that has taken effect.
#[derive(Debug)]
pub(super) struct AnswerDelivery<'a> {
    pub(super) api: &'a Arc<Api>,
    pub(super) tenant: TenantId,
    /// True if the run goes on when the client closes the connection.
    pub(super) goes_on: bool,
}

impl AnswerDelivery<'_> {
    /// The stream of the run.
    pub(super) fn stream(
        &self,
        applied: AppliedTurn,
        permit: StreamPermit,
        encoder: impl StreamEncoder,
    ) -> Body {
        let run = &applied.followed.run;
        let guard = DisconnectGuard {
            api: Arc::clone(self.api),
            tenant: self.tenant,
            session_id: run.session_id,
            run_id: run.id,
            is_done: self.goes_on,
        };
        let streams = (applied.subscription, permit);
        guard.guard(stream_run(self.api, self.tenant, &applied.followed, streams, encoder))
    }

    /// The document that an encoder puts into a slot, when the run has settled or waits for the client.
    pub(super) async fn document<T: Serialize>(
        &self,
        applied: AppliedTurn,
        permit: StreamPermit,
        encoder: impl StreamEncoder,
        slot: AnswerSlot<T>,
    ) -> Result<Response, ApiError> {
        Ok(match slot.read(self.stream(applied, permit, encoder)).await? {
            Ok(answer) => Json(answer).into_response(),
            Err(message) => {
                let mut response =
                    (StatusCode::BAD_GATEWAY, Json(OpenAiError::of_run(message))).into_response();
                // Another try would start another run.
                response.headers_mut().insert(SHOULD_RETRY, HeaderValue::from_static("false"));
                response
            }
        })
    }
}

/// Adds the id of the session to a response.
pub(super) fn name_session(response: &mut Response, session_id: SessionId) {
    if let Ok(id) = HeaderValue::from_str(&session_id.to_string()) {
        response.headers_mut().insert(SESSION_ID, id);
    }
}
