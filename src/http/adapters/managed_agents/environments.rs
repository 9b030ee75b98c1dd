//! Creating, changing, reading and deleting environments.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;

use super::agent::raw;
use super::environment::{DEFAULT, ManagedEnvironment, ManagedEnvironmentBody, stored_id};
use super::paging::ManagedAgentsPage;
use super::query::SdkQuery;
use super::sessions::Deleted;
use crate::domain::environment::Environment;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::json_body::JsonBody;
use crate::http::extract::path::SdkPath;
use crate::http::state::Api;
use crate::service::environments::{
    EnvironmentChanges, create_environment, delete_environment, find_environment,
    list_environments, update_environment,
};

/// Creates an environment: a name that sessions refer to. It does not change where tools run.
#[utoipa::path(
    post, path = "/anthropic/v1/environments", operation_id = "create_managed_environment", tag = "managed_agents",
    params(("beta" = Option<serde_json::Value>, Query, description = "Has no effect.")),
    request_body = ManagedEnvironmentBody,
    responses(
        (status = 200, description = "The environment.", body = ManagedEnvironment),
        (status = 400, description = "`validation_failed`, `bad_json`, `body_incomplete`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn create_managed_environment(
    State(api): State<Arc<Api>>,
    caller: Caller,
    body: JsonBody<ManagedEnvironmentBody>,
) -> Result<Json<ManagedEnvironment>, ApiError> {
    let JsonBody(body) = body;
    let members = body.into_changes(true)?;
    let created = create_environment(&api.service, caller.tenant, members).await?;
    Ok(Json((&created).into()))
}

/// Lists environments, newest first. The default environment, `env_default`, is not in the list.
#[utoipa::path(
    get, path = "/anthropic/v1/environments", operation_id = "list_managed_environments", tag = "managed_agents",
    params(
        ("limit" = Option<i64>, Query, description = "The maximum number of items. A larger number than 200 counts as 200."),
        ("page" = Option<String>, Query, description = "The `next_page` of another page."),
        ("include_archived" = Option<bool>, Query, description = "True to list archived environments as well."),
        ("beta" = Option<serde_json::Value>, Query, description = "Has no effect."),
    ),
    responses(
        (status = 200, description = "A page of environments.", body = ManagedAgentsPage),
        (status = 400, description = "`invalid_cursor`, `invalid_query`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn list_managed_environments(
    State(api): State<Arc<Api>>,
    caller: Caller,
    query: SdkQuery,
) -> Result<Json<ManagedAgentsPage>, ApiError> {
    let includes_archived = query.flag("include_archived")?;
    let mut all = list_environments(&api.service, caller.tenant).await?;
    all.retain(|environment| includes_archived || environment.archived_at.is_none());
    let render = |environment: &Environment| raw(&ManagedEnvironment::from(environment));
    ManagedAgentsPage::of_all(&query, all, (|it: &Environment| it.id, render)).map(Json)
}

/// Retrieves an environment.
#[utoipa::path(
    get, path = "/anthropic/v1/environments/{environment_id}", operation_id = "get_managed_environment", tag = "managed_agents",
    params(
        ("environment_id" = String, Path, description = "The id of the environment."),
        ("beta" = Option<serde_json::Value>, Query, description = "Has no effect."),
    ),
    responses(
        (status = 200, description = "The environment.", body = ManagedEnvironment),
        (status = 404, description = "There is no such environment.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn get_managed_environment(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SdkPath,
) -> Result<Json<ManagedEnvironment>, ApiError> {
    let SdkPath(id) = path;
    if id == DEFAULT {
        return Ok(Json(ManagedEnvironment::default_one()));
    }
    let found = find_environment(&api.service, caller.tenant, stored_id(&id)?).await?;
    Ok(Json((&found).into()))
}

/// Changes an environment.
#[utoipa::path(
    post, path = "/anthropic/v1/environments/{environment_id}", operation_id = "update_managed_environment", tag = "managed_agents",
    params(
        ("environment_id" = String, Path, description = "The id of the environment."),
        ("beta" = Option<serde_json::Value>, Query, description = "Has no effect."),
    ),
    request_body = ManagedEnvironmentBody,
    responses(
        (status = 200, description = "The environment.", body = ManagedEnvironment),
        (status = 400, description = "`validation_failed`, `bad_json`, `body_incomplete`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is no such environment.", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn update_managed_environment(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SdkPath,
    body: JsonBody<ManagedEnvironmentBody>,
) -> Result<Json<ManagedEnvironment>, ApiError> {
    let SdkPath(id) = path;
    let JsonBody(body) = body;
    change(&api, &caller, &id, body.into_changes(false)?).await
}

/// Archives an environment: new sessions cannot refer to it.
#[utoipa::path(
    post, path = "/anthropic/v1/environments/{environment_id}/archive", operation_id = "archive_managed_environment", tag = "managed_agents",
    params(
        ("environment_id" = String, Path, description = "The id of the environment."),
        ("beta" = Option<serde_json::Value>, Query, description = "Has no effect."),
    ),
    responses(
        (status = 200, description = "The environment.", body = ManagedEnvironment),
        (status = 404, description = "There is no such environment.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn archive_managed_environment(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SdkPath,
) -> Result<Json<ManagedEnvironment>, ApiError> {
    let SdkPath(id) = path;
    let changes = EnvironmentChanges { archives: true, ..EnvironmentChanges::default() };
    change(&api, &caller, &id, changes).await
}

/// Deletes an environment. Sessions that refer to it continue.
#[utoipa::path(
    delete, path = "/anthropic/v1/environments/{environment_id}", operation_id = "delete_managed_environment", tag = "managed_agents",
    params(
        ("environment_id" = String, Path, description = "The id of the environment."),
        ("beta" = Option<serde_json::Value>, Query, description = "Has no effect."),
    ),
    responses(
        (status = 200, description = "The environment was deleted.", body = Deleted),
        (status = 404, description = "There is no such environment.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn delete_managed_environment(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SdkPath,
) -> Result<Json<Deleted>, ApiError> {
    let SdkPath(id) = path;
    delete_environment(&api.service, caller.tenant, stored_id(&id)?).await?;
    Ok(Json(Deleted { r#type: "environment_deleted", id }))
}

async fn change(
    api: &Api,
    caller: &Caller,
    id: &str,
    changes: EnvironmentChanges,
) -> Result<Json<ManagedEnvironment>, ApiError> {
    let named = (caller.tenant, stored_id(id)?);
    let changed = update_environment(&api.service, named, changes).await?;
    Ok(Json((&changed).into()))
}
