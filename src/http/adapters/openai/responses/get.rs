//! Reading a response.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;

use super::find::find_response;
use super::mapper::ResponseMapper;
use super::resource::OpenAiResponse;
use super::stream::ResponseStream;
use crate::http::adapters::run_stream::stream_run;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, OpenAiError};
use crate::http::extract::path::SdkPath;
use crate::http::extract::query::Params;
use crate::http::run_response::FollowedRun;
use crate::http::state::Api;
use crate::http::stream::format::StreamFormat;
use crate::http::stream::response::streamed;
use crate::service::messages::PostedRun;

// Other parameters of the SDKs, such as `include[]`, are ignored.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct ResponseQuery {
    /// True for the stream of the events.
    stream: Option<bool>,
    /// The number of the last event that the client has. The stream begins after it.
    starting_after: Option<usize>,
    /// Ignored.
    #[expect(dead_code, reason = "only the OpenAPI document uses it")]
    include: Option<String>,
    /// Ignored.
    #[expect(dead_code, reason = "only the OpenAPI document uses it")]
    include_obfuscation: Option<String>,
}

/// Returns a response as it is now, or streams its events from the beginning or after one of them.
#[utoipa::path(
    get, path = "/openai/v1/responses/{response_id}", operation_id = "get_openai_response", tag = "openai",
    params(("response_id" = String, Path, description = "The response."), ResponseQuery),
    responses(
        (status = 200, description = "The response, or the stream of its events.",
         content((OpenAiResponse = "application/json"), (String = "text/event-stream"))),
        (status = 400, description = "`invalid_query`", body = OpenAiError),
        (status = 404, description = "`run_not_found`: the response does not exist", body = OpenAiError),
        (status = 503, description = "`too_many_streams`, `draining`, `database_unavailable`", body = OpenAiError),
    )
)]
pub(in crate::http) async fn get_openai_response(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SdkPath,
    query: Params<ResponseQuery>,
) -> Result<Response, ApiError> {
    let (SdkPath(id), Params(query)) = (path, query);
    let (service, tenant) = (&api.service, caller.tenant);
    let found = find_response(service, tenant, &id).await?;
    if query.stream != Some(true) {
        return Ok(Json(found.read(service, tenant).await?).into_response());
    }
    let permit = api.stream_permit(&caller)?;
    let subscription = service.bus.subscribe(found.run.session_id);
    let head = found.head(service, tenant).await?;
    let mapper = ResponseMapper::new(found.after);
    let encoder = ResponseStream::new(mapper, head, query.starting_after.unwrap_or(0));
    let followed = FollowedRun::from(PostedRun { run: found.run, is_repeated: true });
    let stream = stream_run(&api, tenant, &followed, (subscription, permit), encoder);
    Ok(streamed(stream, StreamFormat::EventStream))
}
