//! Results of calls that the client runs.

mod content;

use std::collections::HashSet;

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use serde_json::value::RawValue;
use sqlx::{Connection as _, PgConnection};

use super::answering::{Met, end};
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::permission::Awaits;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, FieldError, Problem};
use crate::http::extract::large_body::LargeJsonBody;
use crate::http::extract::path::SessionPath;
use crate::http::resources::RunResource;
use crate::http::server::deadline::in_time;
use crate::http::state::Api;
use crate::service::Error;
use crate::service::content::{ContentTotals, GivenContent, check_model_support};
use crate::service::json::objects;
use crate::service::offload::offload;
use crate::store::decisions::{LockedCall, NewResult, finish, lock_calls};
use crate::store::media::list_contents;
use crate::store::sessions::find;

/// Results of one post.
const MAX_RESULTS: usize = 128;

/// Results of calls that the client ran.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct CreateToolResults {
    /// One or more, at most 128. Either all of them are taken or none is.
    #[serde(deserialize_with = "objects")]
    #[schema(min_items = 1, max_items = 128)]
    results: Vec<ToolResult>,
}

/// The result of one call.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolResult {
    /// The model's own id of the call.
    pub(super) tool_use_id: String,
    /// A text, or blocks, at most 100 of them; at most 100 KiB of text. NUL and halves of
    /// characters become U+FFFD.
    #[schema(value_type = Option<GivenContent>)]
    pub(super) content: Option<Box<RawValue>>,
    /// Whether the call failed.
    #[serde(default)]
    pub(super) is_error: bool,
}

/// A result that has been read.
#[derive(Debug)]
pub(super) struct Given {
    /// Where it stands in the body.
    place: String,
    tool_use_id: String,
    is_error: bool,
    content: content::Read,
}

impl CreateToolResults {
    fn read(self) -> Result<Vec<Given>, ApiError> {
        if !(1..=MAX_RESULTS).contains(&self.results.len()) {
            return Err(ApiError::field("/results", format!("is not 1 to {MAX_RESULTS} results")));
        }
        let placed = |(index, result)| (format!("/results/{index}"), result);
        read_results(self.results.into_iter().enumerate().map(placed), "tool_use_id")
    }
}

/// Reads results, each with the place where it stands, whose calls are named by this member.
pub(super) fn read_results(
    results: impl IntoIterator<Item = (String, ToolResult)>,
    call: &str,
) -> Result<Vec<Given>, ApiError> {
    let mut errors = Vec::new();
    let mut given = Vec::new();
    let mut seen = HashSet::new();
    for (place, result) in results {
        let ToolResult { tool_use_id, content, is_error } = result;
        let at = |rest: &str| format!("{place}/{rest}");
        if !seen.insert(tool_use_id.clone()) {
            let message = "is answered twice".to_owned();
            errors.push(FieldError { pointer: at(call), message });
        }
        match content::read(content.as_deref(), &at("content")) {
            // The model would refuse it, and with it every later request of the session.
            Ok(content) if is_error && content.has_media => errors.push(FieldError {
                pointer: at("content"),
                message: "has more than text, which an error cannot have".to_owned(),
            }),
            Ok(content) => given.push(Given { place, tool_use_id, is_error, content }),
            Err(wrong) => errors.extend(wrong),
        }
    }
    if errors.is_empty() { Ok(given) } else { Err(ApiError::Service(Error::Validation(errors))) }
}

/// Hands in results of calls that the client runs, one by one or together.
///
/// The first result of a call counts. The same one again gets the same answer; another one 409.
#[utoipa::path(
    post, path = "/sessions/{session_id}/tool_results", operation_id = "create_tool_results", tag = "approvals",
    params(("session_id" = String, Path, description = "The session.")),
    request_body = CreateToolResults,
    responses(
        (status = 202, description = "Taken. The run goes on when no other call of it waits.", body = RunResource,
         headers(("idempotency-replayed" = String, description = "`true` if all of them were there before."))),
        (status = 200, description = "They were there before, and the run has settled.", body = RunResource),
        (status = 400, description = "`bad_json`, `body_incomplete`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`, `tool_call_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`already_resolved`: the call has another result, or the run is over. `call_not_waiting`: not yet, calls before it are under way.", body = Problem, content_type = "application/problem+json"),
        (status = 410, description = "`tool_result_expired`: the call has got its default answer.", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`draining`, `database_unavailable`, `too_many_large_bodies`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn create_tool_results(
    State(api): State<Api>,
    caller: Caller,
    path: SessionPath,
    body: LargeJsonBody<CreateToolResults>,
) -> Result<Response, ApiError> {
    let SessionPath(session_id) = path;
    let LargeJsonBody(results, room) = body;
    let given = offload(room.bytes(), move || results.read()).await??;
    let tenant = caller.tenant;
    let answered = async {
        check_for_model(&api, tenant, session_id, &given).await?;
        let mut conn = api.pool.acquire_as(caller.tenant).await?;
        let mut transaction = conn.begin().await?;
        let met = meet(&mut transaction, tenant, session_id, &given, "/results").await;
        let met = end(transaction, met).await?;
        conn.give_back();
        met?.respond(&api, tenant, session_id).await
    };
    let answered = in_time(answered).await;
    drop(room);
    answered
}

/// Refuses what the session's model does not take.
pub(super) async fn check_for_model(
    api: &Api,
    tenant: TenantId,
    session_id: SessionId,
    given: &[Given],
) -> Result<(), ApiError> {
    let media = given.iter().filter(|result| result.content.has_media);
    let media = media.filter_map(|result| {
        Some((format!("{}/content", result.place), result.content.content.as_deref()?))
    });
    let media: Vec<(String, &str)> = media.collect();
    if media.is_empty() {
        return Ok(());
    }
    let mut conn = api.pool.acquire_as(tenant).await?;
    let session = find(&mut conn, tenant, session_id).await?;
    conn.give_back();
    let session =
        session.ok_or_else(|| ApiError::Service(Error::SessionNotFound(session_id.to_string())))?;
    check_model_support(&api.defaults.model_rules.models, &session.settings.model, &media).await?;
    Ok(())
}

/// Records results in the caller's transaction; what is wrong with all of them together is said of
/// this place.
pub(super) async fn meet(
    conn: &mut PgConnection,
    tenant: TenantId,
    session_id: SessionId,
    given: &[Given],
    place: &str,
) -> Result<Met, ApiError> {
    // What the database cannot hold names no call.
    let ids = given.iter().map(|result| result.tool_use_id.clone());
    let ids: Vec<String> = ids.filter(|id| !id.contains('\0')).collect();
    let calls = lock_calls(conn, tenant, session_id, &ids).await?;
    let calls =
        calls.ok_or_else(|| ApiError::Service(Error::SessionNotFound(session_id.to_string())))?;
    check_conversation(conn, tenant, (session_id, &calls), given, place).await?;
    let mut events = Vec::new();
    let mut open = None;
    let mut last = None;
    for result in given {
        let asked = calls.iter().find(|call| call.tool_use_id == result.tool_use_id);
        if asked.is_some_and(LockedCall::may_wait_yet) {
            return Err(ApiError::Service(Error::CallNotWaiting(result.tool_use_id.clone())));
        }
        let asked = asked.filter(|call| call.awaits == Some(Awaits::Client));
        let call = asked.ok_or_else(|| {
            ApiError::Service(Error::ToolCallNotFound(result.tool_use_id.clone()))
        })?;
        last = Some(call.run_id);
        if let Some(event) = result.give(conn, call).await? {
            events.push(event);
            open = Some(call);
        }
    }
    match (open, last) {
        (Some(call), _) => Met::recorded(conn, call, &events).await,
        (None, Some(run_id)) => Ok(Met::repeated(run_id)),
        (None, None) => Err(ApiError::Internal("results without a result".to_owned())),
    }
}

/// Refuses results that are right by themselves and one too many in their session.
async fn check_conversation(
    conn: &mut PgConnection,
    tenant: TenantId,
    (session_id, calls): (SessionId, &[LockedCall]),
    given: &[Given],
    place: &str,
) -> Result<(), ApiError> {
    let is_open = |result: &&Given| {
        calls.iter().any(|call| call.tool_use_id == result.tool_use_id && call.is_open())
    };
    let new = given.iter().filter(is_open).filter(|result| result.content.has_media);
    let new: Vec<String> = new.filter_map(|result| result.content.content.clone()).collect();
    if new.is_empty() {
        return Ok(());
    }
    let before = list_contents(conn, tenant, session_id).await?;
    Ok(ContentTotals::check(before, new, place).await?)
}

impl Given {
    /// Records the result, or finds that it was given before. What tells of it.
    async fn give(
        &self,
        conn: &mut PgConnection,
        call: &LockedCall,
    ) -> Result<Option<NewEvent>, ApiError> {
        let content::Read { text, content, told, .. } = &self.content;
        let new = NewResult { text, content: content.as_deref(), is_error: self.is_error };
        if call.is_open() {
            finish(conn, call, &new).await?;
            return Ok(Some(NewEvent::new(&EventBody::UserCustomToolResult {
                custom_tool_use_id: self.tool_use_id.clone(),
                content: told.clone(),
                is_error: self.is_error,
            })));
        }
        let is_same = call.state == new.state()
            && call.result.as_deref() == Some(text)
            && call.content == *content;
        if is_same {
            return Ok(None);
        }
        if call.is_overdue {
            return Err(ApiError::Service(Error::ToolResultExpired(self.tool_use_id.clone())));
        }
        Err(ApiError::Service(Error::AlreadyResolved(self.tool_use_id.clone())))
    }
}
