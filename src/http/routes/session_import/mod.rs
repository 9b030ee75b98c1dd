//! Importing a session from its export: all of it, or nothing.

mod contents;
mod events;
mod history;
mod lines;
mod reply;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::header::LOCATION;
use sqlx::Connection as _;

use super::answering::end;
use super::sessions::{Made, resource};
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::session::Session;
use crate::http::auth::Caller;
use crate::http::blocks::{Census, check_taken};
use crate::http::error::{ApiError, Problem};
use crate::http::extract::large_body::LargeLines;
use crate::http::offload::offload;
use crate::http::resources::SessionResource;
use crate::http::server::deadline::in_time;
use crate::http::server::forwarded::link;
use crate::http::state::Api;
use crate::store::session_transfer::insert_history;
use crate::store::sessions::{find, insert};
use history::Imported;
use lines::Lines;

/// Imports a session from an export in lines of JSON.
///
/// The session is a new one of the caller, with the same settings and messages, and with new ids and
/// times of its own and of its runs. Its settings are checked as those of any new session, its
/// messages as the model's side would check them; what is wrong is pointed at by line, counted from
/// 1, such as `/lines/7/message/content/0`. It is made with all of its messages, or not at all. It
/// has used nothing yet.
#[utoipa::path(
    post, path = "/sessions/import", operation_id = "import_session", tag = "sessions",
    request_body(
        content((String = "application/jsonl"), (String = "application/x-ndjson")),
        description = "What `GET …/export` gave. It may be as large as a message.",
    ),
    responses(
        (status = 201, description = "The session.", body = SessionResource,
         headers(("location" = String, description = "The session's path."),
                 ("etag" = String, description = "Its version."))),
        (status = 400, description = "`body_incomplete`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`draining`, `database_unavailable`, `too_many_large_bodies`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn import_session(
    State(api): State<Api>,
    caller: Caller,
    body: LargeLines,
) -> Result<Response, ApiError> {
    let LargeLines(body, room) = body;
    let read = offload(room.bytes(), move || {
        let Lines { settings, items } = Lines::read(&body)?;
        Ok::<_, ApiError>((settings, Imported::read(items)?))
    });
    let (settings, imported) = read.await??;
    let made = settings.make(&api, caller.tenant).await;
    let made = made.map_err(|error| error.beneath("/lines/1/settings"))?;
    let given = &imported.given;
    let contents: Vec<(String, &str)> =
        given.iter().map(|(pointer, content)| (pointer.clone(), content.as_str())).collect();
    check_taken(&api.defaults.model_rules.models, &made.settings.model, &contents).await?;
    let contents = given.iter().map(|(_, content)| content.clone()).collect();
    Census::check(Vec::new(), contents, "/lines").await?;
    let session = in_time(store(&api, caller.tenant, &made, &imported)).await?;
    drop(room);
    let location = link(format_args!("/sessions/{}", session.id));
    Ok((StatusCode::CREATED, [(LOCATION, location)], resource(&api, session)).into_response())
}

async fn store(
    api: &Api,
    tenant: TenantId,
    made: &Made,
    imported: &Imported,
) -> Result<Session, ApiError> {
    let id = SessionId::new();
    let mut conn = api.pool.acquire_as(tenant).await?;
    let mut transaction = conn.begin().await?;
    let stored = async {
        insert(&mut transaction, &made.row(id, tenant)).await?;
        insert_history(&mut transaction, tenant, id, &imported.history).await?;
        Ok(find(&mut transaction, tenant, id).await?)
    };
    let stored = stored.await;
    let stored = end(transaction, stored).await?;
    conn.give_back();
    stored?.ok_or_else(|| ApiError::Internal(format!("{id} was stored and is not there")))
}
