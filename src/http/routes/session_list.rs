//! Lists of sessions.

use axum::extract::State;
use axum::response::Response;
use http::Uri;
use sqlx::Connection as _;

use super::session_query::{ListSessions, SessionQuery};
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::resources::{Page, SessionResource};
use crate::http::state::Api;
use crate::store::session_list::list;

/// Lists sessions, newest first unless `order` says otherwise.
///
/// Those that are archived are left out unless `archived` asks for them. All filters have to hold.
#[utoipa::path(
    get, path = "/sessions", operation_id = "list_sessions", tag = "sessions",
    params(
        ListSessions,
        ("metadata" = Option<HashMap<String, String>>, Query, style = DeepObject, explode,
         description = "`metadata[key]=value`: only sessions whose metadata has this member, a text, \
            a number or a truth that reads exactly so. At most 5; all have to hold."),
    ),
    responses(
        (status = 200, description = "A page of sessions.", body = Page<SessionResource>,
         headers(("link" = String, description = "Its neighbours: `next` and `prev` (RFC 8288)."))),
        (status = 400, description = "`invalid_cursor`, `invalid_query`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn list_sessions(
    State(api): State<Api>,
    caller: Caller,
    query: SessionQuery,
    uri: Uri,
) -> Result<Response, ApiError> {
    let SessionQuery { asked, filter } = query;
    let mut conn = api.pool.acquire_as(caller.tenant).await?;
    let mut transaction = conn.begin().await?;
    let sessions = list(&mut transaction, caller.tenant, &filter, asked.slice()).await?;
    let mut page = asked.page(sessions, |session| session.id);
    if let Some(back) = page.back() {
        let found = list(&mut transaction, caller.tenant, &filter, back).await?;
        page.goes_back(!found.is_empty());
    }
    transaction.commit().await?;
    conn.give_back();
    let resource = |session| SessionResource::new(session, &api.permissions);
    Ok(page.map(resource).respond(&uri))
}
