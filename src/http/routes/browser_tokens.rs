//! Browser tokens: short-lived credentials for the browsers of end users.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::domain::browser_token::{BrowserScope, BrowserTarget, BrowserTokenRecord};
use crate::domain::ids::{BrowserTokenId, SessionId};
use crate::domain::name::is_client_name;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::json_body::{JsonBody, OptionalJsonBody};
use crate::http::extract::path::BrowserTokenPath;
use crate::http::extract::query::Params;
use crate::http::state::Api;
use crate::service::browser_tokens::{self, CreateBrowserToken, RenewBrowserToken};

/// A browser token without its secret.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct BrowserTokenResource {
    /// `browser_token`.
    r#type: &'static str,
    /// The id, by which the token is renewed and revoked. It is no secret.
    #[schema(value_type = String, example = "tbt_0193a7c2b8f07d3c9e41f2a6b5c8d7e0")]
    id: BrowserTokenId,
    /// The session for which the token is valid; absent for a token of a user.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    session_id: Option<SessionId>,
    /// The user for whose sessions the token is valid; absent for a token of a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// What the browser may do.
    scopes: Vec<BrowserScope>,
    /// The time when the token was created.
    #[schema(value_type = String, format = DateTime)]
    #[serde(serialize_with = "crate::domain::rfc3339::time")]
    created_at: Timestamp,
    /// The time when the token expires.
    #[schema(value_type = String, format = DateTime)]
    #[serde(serialize_with = "crate::domain::rfc3339::time")]
    expires_at: Timestamp,
}

impl From<BrowserTokenRecord> for BrowserTokenResource {
    fn from(record: BrowserTokenRecord) -> Self {
        let BrowserTokenRecord { id, grant, created_at, expires_at } = record;
        let (session_id, user) = match grant.target {
            BrowserTarget::Session(id) => (Some(id), None),
            BrowserTarget::User(user) => (None, Some(user)),
        };
        let (r#type, scopes) = ("browser_token", grant.scopes);
        Self { r#type, id, session_id, user, scopes, created_at, expires_at }
    }
}

/// A new browser token.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct CreatedBrowserToken {
    #[serde(flatten)]
    record: BrowserTokenResource,
    /// The token, which the browser sends as `Authorization: Bearer TOKEN`. It is only returned here.
    token: String,
}

/// The number of revoked tokens.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct RevokedBrowserTokens {
    /// The number of tokens that were valid before.
    revoked: i64,
}

/// The tokens to revoke. Exactly one of the parameters is required.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct RevokeBrowserTokens {
    /// Revokes the tokens of this session.
    #[param(value_type = Option<String>, pattern = "^ses_[0-9a-f]{32}$")]
    session_id: Option<SessionId>,
    /// Revokes the tokens of this user and of the sessions of this user.
    #[param(max_length = 255)]
    user: Option<String>,
}

/// Creates a browser token.
///
/// A back end creates the token with its API key and passes it to the browser of an end user, who can
/// then use the routes for browsers with one session, or with the sessions of one user, and nothing else.
/// The token is no longer valid when it expires, when it is revoked, when the session is deleted, or when
/// the API key is revoked.
#[utoipa::path(
    post, path = "/browser_tokens", operation_id = "create_browser_token", tag = "browser tokens",
    request_body = CreateBrowserToken,
    responses(
        (status = 201, description = "The token.", body = CreatedBrowserToken,
         headers(("cache-control" = String, description = "`private, no-store`"))),
        (status = 400, description = "`bad_json`, `body_incomplete`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn create_browser_token(
    State(api): State<Arc<Api>>,
    caller: Caller,
    body: JsonBody<CreateBrowserToken>,
) -> Result<Response, ApiError> {
    let JsonBody(request) = body;
    let creator = (caller.tenant, caller.principal);
    let created = browser_tokens::create_browser_token(&api.service, creator, request).await?;
    let (record, token) = (created.record.into(), created.token.reveal());
    Ok((StatusCode::CREATED, Json(CreatedBrowserToken { record, token })).into_response())
}

/// Gives a browser token a new lifetime.
///
/// The token itself stays the same, so open streams continue. A token that has expired cannot be renewed.
#[utoipa::path(
    post, path = "/browser_tokens/{token_id}/renew", operation_id = "renew_browser_token",
    tag = "browser tokens",
    params(("token_id" = String, Path, description = "The id of the token.")),
    request_body = Option<RenewBrowserToken>,
    responses(
        (status = 200, description = "The token with its new expiry.", body = BrowserTokenResource),
        (status = 400, description = "`bad_json`, `body_incomplete`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`browser_token_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn renew_browser_token(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: BrowserTokenPath,
    body: OptionalJsonBody<RenewBrowserToken>,
) -> Result<Json<BrowserTokenResource>, ApiError> {
    let (BrowserTokenPath(id), OptionalJsonBody(request)) = (path, body);
    let token = (caller.tenant, id);
    let record = browser_tokens::renew_browser_token(&api.service, token, request).await?;
    Ok(Json(record.into()))
}

/// Revokes a browser token.
///
/// Requests with the token are refused, and its streams end, after at most 4 seconds.
#[utoipa::path(
    delete, path = "/browser_tokens/{token_id}", operation_id = "revoke_browser_token",
    tag = "browser tokens",
    params(("token_id" = String, Path, description = "The id of the token.")),
    responses(
        (status = 204, description = "The token was revoked."),
        (status = 404, description = "`browser_token_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn revoke_browser_token(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: BrowserTokenPath,
) -> Result<StatusCode, ApiError> {
    let BrowserTokenPath(id) = path;
    browser_tokens::revoke_browser_token(&api.service, caller.tenant, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Revokes all browser tokens of a session or of a user, for example when the user signs out.
#[utoipa::path(
    delete, path = "/browser_tokens", operation_id = "revoke_browser_tokens", tag = "browser tokens",
    params(RevokeBrowserTokens),
    responses(
        (status = 200, description = "The number of revoked tokens.", body = RevokedBrowserTokens),
        (status = 400, description = "`invalid_query`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn revoke_browser_tokens(
    State(api): State<Arc<Api>>,
    caller: Caller,
    query: Params<RevokeBrowserTokens>,
) -> Result<Json<RevokedBrowserTokens>, ApiError> {
    let Params(RevokeBrowserTokens { session_id, user }) = query;
    let target = match (session_id, user) {
        (Some(id), None) => BrowserTarget::Session(id),
        (None, Some(user)) if !is_client_name(&user) => {
            let message = "is not 1 to 255 characters without control characters";
            return Err(ApiError::query("user", message));
        }
        (None, Some(user)) => BrowserTarget::User(user),
        (Some(_), Some(_)) => {
            return Err(ApiError::query("user", "is not allowed together with `session_id`"));
        }
        (None, None) => {
            return Err(ApiError::query(
                "",
                "has neither `session_id` nor `user`; one is required",
            ));
        }
    };
    let revoked =
        browser_tokens::revoke_browser_tokens(&api.service, caller.tenant, &target).await?;
    Ok(Json(RevokedBrowserTokens { revoked }))
}
