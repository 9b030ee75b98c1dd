//! Lists of sessions.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::Uri;

use super::list_query::{ListSessions, SessionQuery};
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::resources::{Page, SessionResource};
use crate::http::routes::paging::respond;
use crate::http::state::Api;
use crate::service::sessions;

/// Lists sessions, by default newest first.
///
/// Long system prompts are truncated: see `truncated`.
///
/// A session has to match all filters. Archived sessions are left out unless `archived` selects
/// them.
#[utoipa::path(
    get, path = "/sessions", operation_id = "list_sessions", tag = "sessions",
    params(
        ListSessions,
        ("metadata" = Option<HashMap<String, String>>, Query, style = DeepObject, explode,
         description = "`metadata[key]=value`: selects sessions whose metadata has this member. The \
            value is compared with the text of a string, number or boolean. At most 5 members; all \
            have to match."),
    ),
    responses(
        (status = 200, description = "A page of sessions.", body = Page<SessionResource>,
         headers(("link" = String, description = "Links to the `next` and `prev` page (RFC 8288)."))),
        (status = 400, description = "`invalid_cursor`, `invalid_query`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn list_sessions(
    State(api): State<Arc<Api>>,
    caller: Caller,
    query: SessionQuery,
    uri: Uri,
) -> Result<Response, ApiError> {
    let SessionQuery { page, mut filter } = query;
    if let Some(user) = caller.only_user() {
        if filter.user.as_ref().is_some_and(|other| other != user) {
            return Err(ApiError::NoBrowserTokens("`user` is not the user of the token"));
        }
        filter.user = Some(user.to_owned());
    }
    let page = sessions::list_sessions(&api.service, caller.tenant, &filter, page).await?;
    let operator = &api.service.permissions;
    let resource = |session| {
        if caller.is_browser() {
            SessionResource::for_browser(session, operator)
        } else {
            SessionResource::in_list(session, operator)
        }
    };
    Ok(respond(page.map(resource), &uri))
}
