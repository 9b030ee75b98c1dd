//! Webhooks: who is told, where, of what.

pub(in crate::http) mod deliveries;

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::header::LOCATION;
use jiff::Timestamp;
use reqwest::Url;
use serde::{Deserialize, Serialize};

use crate::domain::ids::WebhookId;
use crate::domain::webhook::{Disabled, Webhook, WebhookEvent, WebhookSecret};
use crate::http::auth::Caller;
use crate::http::error::{ApiError, FieldError, Problem};
use crate::http::extract::json_body::{JsonBody, given, there};
use crate::http::extract::path::WebhookPath;
use crate::http::resources::Page;
use crate::http::server::deadline::in_time;
use crate::http::server::forwarded::link;
use crate::http::state::Api;
use crate::store::webhooks::{
    Changes, MAX_WEBHOOKS, NewWebhook, delete, find, insert, list, replace_secret, update,
};

/// How long the secret before signs as well.
const GRACE: Duration = Duration::from_hours(24);
const MAX_URL: usize = 2000;
const MAX_DESCRIPTION: usize = 500;

/// Where to be told, and of what.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct CreateWebhook {
    /// An https URL, or one at a host that the operator has listed; at most 2000 characters.
    #[schema(format = "uri", max_length = 2000)]
    url: String,
    /// Of what to be told.
    #[schema(value_type = Vec<WebhookEvent>, min_items = 1)]
    events: Vec<String>,
    /// A name for people, at most 500 characters.
    #[schema(max_length = 500)]
    description: Option<String>,
}

/// What is to be changed of a webhook. What is absent stays as it is.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct UpdateWebhook {
    /// Where to be told from now on; deliveries that wait go there as well.
    #[serde(default, deserialize_with = "there")]
    #[schema(value_type = String, format = "uri", max_length = 2000)]
    url: Option<String>,
    /// Of what to be told from now on.
    #[serde(default, deserialize_with = "there")]
    #[schema(value_type = Vec<WebhookEvent>, min_items = 1)]
    events: Option<Vec<String>>,
    /// A name for people; null takes it away.
    #[expect(clippy::option_option, reason = "null is another thing than nothing")]
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, max_length = 500)]
    description: Option<Option<String>>,
    /// Whether to be told at all. What happens meanwhile is not kept; what waits already is sent
    /// once it is enabled again, unless it is older than 30 days by then.
    #[serde(default, deserialize_with = "there")]
    #[schema(value_type = bool)]
    enabled: Option<bool>,
}

/// Somewhere to be told of runs.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct WebhookResource {
    /// `webhook`.
    r#type: &'static str,
    /// The id.
    #[schema(value_type = String, example = "whk_0193a7c2b8f07d3c9e41f2a6b5c8d7e0")]
    id: WebhookId,
    /// Where.
    url: String,
    /// A name for people.
    #[schema(required)]
    description: Option<String>,
    /// Of what.
    events: Vec<WebhookEvent>,
    /// Whether it is told anything.
    enabled: bool,
    /// Why it is not; null if it is.
    #[schema(required)]
    disabled: Option<Disabled>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When it was last changed.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

impl From<Webhook> for WebhookResource {
    fn from(webhook: Webhook) -> Self {
        let Webhook { id, url, description, events, disabled, created_at, updated_at } = webhook;
        let enabled = disabled.is_none();
        let r#type = "webhook";
        Self { r#type, id, url, description, events, enabled, disabled, created_at, updated_at }
    }
}

/// A webhook that was just made, with what it takes to check what it is told.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct CreatedWebhook {
    #[serde(flatten)]
    webhook: WebhookResource,
    /// Signs what is sent. It is told here and never again.
    #[schema(example = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")]
    secret: String,
}

/// What signs deliveries from now on.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct RotatedSecret {
    /// `webhook_secret`.
    r#type: &'static str,
    /// The new secret. It is told here and never again.
    secret: String,
    /// For how many seconds the one before signs as well.
    old_secret_seconds: u64,
}

/// What is wrong with what a webhook is to be, and its events.
fn check(
    api: &Api,
    url: Option<&str>,
    events: Option<&[String]>,
    description: Option<&str>,
) -> Result<Option<Vec<WebhookEvent>>, ApiError> {
    let mut errors = Vec::new();
    let mut refuse = |pointer: String, message: String| {
        errors.push(FieldError { pointer, message });
    };
    if let Some(problem) = url.and_then(|url| url_problem(api, url)) {
        refuse("/url".to_owned(), problem);
    }
    if description.is_some_and(|text| text.chars().count() > MAX_DESCRIPTION) {
        refuse("/description".to_owned(), "is longer than 500 characters".to_owned());
    }
    if description.is_some_and(|text| text.contains('\0')) {
        refuse("/description".to_owned(), "has a NUL".to_owned());
    }
    if events.is_some_and(<[String]>::is_empty) {
        refuse("/events".to_owned(), "is empty".to_owned());
    }
    let mut known = Vec::new();
    for (index, word) in events.unwrap_or_default().iter().enumerate() {
        match WebhookEvent::parse(word) {
            Some(event) => known.push(event),
            None => refuse(format!("/events/{index}"), format!("{word:?} is not an event")),
        }
    }
    known.sort_unstable();
    known.dedup();
    if errors.is_empty() { Ok(events.map(|_| known)) } else { Err(ApiError::Validation(errors)) }
}

fn url_problem(api: &Api, text: &str) -> Option<String> {
    if text.chars().count() > MAX_URL {
        return Some("is longer than 2000 characters".to_owned());
    }
    let url: Url = match text.parse() {
        Ok(url) => url,
        Err(error) => return Some(format!("is not a URL: {error}")),
    };
    // It is stored as it was written, and another reader may see what this one passes over.
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Some("has a blank or a control character".to_owned());
    }
    api.options.webhook_hosts.reach(&url).err().map(|refused| refused.to_string())
}

fn new_secret() -> Result<WebhookSecret, ApiError> {
    WebhookSecret::generate().map_err(|error| ApiError::Internal(error.to_string()))
}

fn unknown(id: WebhookId) -> ApiError {
    ApiError::WebhookNotFound(id.to_string())
}

/// Makes a webhook.
///
/// The answer has the secret that signs what is sent; it is told only here. A tenant has at most
/// 20 webhooks.
#[utoipa::path(
    post, path = "/webhooks", operation_id = "create_webhook", tag = "webhooks",
    request_body = CreateWebhook,
    responses(
        (status = 201, description = "The webhook.", body = CreatedWebhook,
         headers(("location" = String, description = "The webhook's path."))),
        (status = 400, description = "`bad_json`, `body_incomplete`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`too_many_webhooks`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn create_webhook(
    State(api): State<Api>,
    caller: Caller,
    body: JsonBody<CreateWebhook>,
) -> Result<Response, ApiError> {
    let JsonBody(CreateWebhook { url, events, description }) = body;
    let events = check(&api, Some(&url), Some(&events), description.as_deref())?;
    let (id, secret) = (WebhookId::new(), new_secret()?);
    let new = NewWebhook {
        id,
        tenant_id: caller.tenant,
        url: &url,
        description: description.as_deref(),
        events: &events.unwrap_or_default(),
        secret: &secret,
    };
    let stored = async {
        let mut conn = api.pool.acquire_as(caller.tenant).await?;
        if !insert(&mut conn, &new).await? {
            return Err(ApiError::TooManyWebhooks(MAX_WEBHOOKS));
        }
        let webhook = find(&mut conn, caller.tenant, id).await?;
        conn.give_back();
        webhook.ok_or_else(|| unknown(id))
    };
    let webhook = in_time(stored).await?.into();
    let location = [(LOCATION, link(format_args!("/webhooks/{id}")))];
    let created = CreatedWebhook { webhook, secret: secret.reveal() };
    Ok((StatusCode::CREATED, location, Json(created)).into_response())
}

/// Lists the webhooks, oldest first.
#[utoipa::path(
    get, path = "/webhooks", operation_id = "list_webhooks", tag = "webhooks",
    responses((status = 200, description = "All webhooks.", body = Page<WebhookResource>))
)]
pub(in crate::http) async fn list_webhooks(
    State(api): State<Api>,
    caller: Caller,
) -> Result<Json<Page<WebhookResource>>, ApiError> {
    let mut conn = api.pool.acquire_as(caller.tenant).await?;
    let webhooks = list(&mut conn, caller.tenant).await?;
    conn.give_back();
    let data = webhooks.into_iter().map(WebhookResource::from).collect();
    Ok(Json(Page::whole(data)))
}

/// Reads a webhook.
#[utoipa::path(
    get, path = "/webhooks/{webhook_id}", operation_id = "get_webhook", tag = "webhooks",
    params(("webhook_id" = String, Path, description = "The webhook.")),
    responses(
        (status = 200, description = "The webhook.", body = WebhookResource),
        (status = 404, description = "`webhook_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn get_webhook(
    State(api): State<Api>,
    caller: Caller,
    path: WebhookPath,
) -> Result<Json<WebhookResource>, ApiError> {
    let WebhookPath(id) = path;
    let mut conn = api.pool.acquire_as(caller.tenant).await?;
    let webhook = find(&mut conn, caller.tenant, id).await?;
    conn.give_back();
    webhook.map(|webhook| Json(webhook.into())).ok_or_else(|| unknown(id))
}

/// Changes a webhook.
#[utoipa::path(
    patch, path = "/webhooks/{webhook_id}", operation_id = "update_webhook", tag = "webhooks",
    params(("webhook_id" = String, Path, description = "The webhook.")),
    request_body(
        content(
            (UpdateWebhook = "application/merge-patch+json"),
            (UpdateWebhook = "application/json"),
        )
    ),
    responses(
        (status = 200, description = "The webhook as it is now.", body = WebhookResource),
        (status = 400, description = "`bad_json`, `body_incomplete`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`webhook_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn update_webhook(
    State(api): State<Api>,
    caller: Caller,
    path: WebhookPath,
    body: JsonBody<UpdateWebhook>,
) -> Result<Json<WebhookResource>, ApiError> {
    let (WebhookPath(id), JsonBody(new)) = (path, body);
    let description = new.description.as_ref().map(Option::as_deref);
    let events = check(&api, new.url.as_deref(), new.events.as_deref(), description.flatten())?;
    let changes = Changes {
        url: new.url.as_deref(),
        description,
        events: events.as_deref(),
        is_enabled: new.enabled,
    };
    let changed = async {
        let mut conn = api.pool.acquire_as(caller.tenant).await?;
        let webhook = update(&mut conn, caller.tenant, id, &changes).await?;
        conn.give_back();
        Ok(webhook)
    };
    let webhook = in_time(changed).await?;
    webhook.map(|webhook| Json(webhook.into())).ok_or_else(|| unknown(id))
}

/// Deletes a webhook, with all that it was to be told.
#[utoipa::path(
    delete, path = "/webhooks/{webhook_id}", operation_id = "delete_webhook", tag = "webhooks",
    params(("webhook_id" = String, Path, description = "The webhook.")),
    responses(
        (status = 204, description = "It is gone."),
        (status = 404, description = "`webhook_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn delete_webhook(
    State(api): State<Api>,
    caller: Caller,
    path: WebhookPath,
) -> Result<StatusCode, ApiError> {
    let WebhookPath(id) = path;
    let deleted = async {
        let mut conn = api.pool.acquire_as(caller.tenant).await?;
        let is_done = delete(&mut conn, caller.tenant, id).await?;
        conn.give_back();
        Ok(is_done)
    };
    if in_time(deleted).await? { Ok(StatusCode::NO_CONTENT) } else { Err(unknown(id)) }
}

/// Gives a webhook another secret.
///
/// For 24 hours what is sent has two signatures, by the new secret and by the one before.
#[utoipa::path(
    post, path = "/webhooks/{webhook_id}/secret", operation_id = "rotate_webhook_secret", tag = "webhooks",
    params(("webhook_id" = String, Path, description = "The webhook.")),
    responses(
        (status = 200, description = "The new secret.", body = RotatedSecret),
        (status = 404, description = "`webhook_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn rotate_webhook_secret(
    State(api): State<Api>,
    caller: Caller,
    path: WebhookPath,
) -> Result<Json<RotatedSecret>, ApiError> {
    let WebhookPath(id) = path;
    let secret = new_secret()?;
    let replaced = async {
        let mut conn = api.pool.acquire_as(caller.tenant).await?;
        let is_done = replace_secret(&mut conn, caller.tenant, id, &secret, GRACE).await?;
        conn.give_back();
        Ok(is_done)
    };
    if !in_time(replaced).await? {
        return Err(unknown(id));
    }
    let (r#type, secret) = ("webhook_secret", secret.reveal());
    Ok(Json(RotatedSecret { r#type, secret, old_secret_seconds: GRACE.as_secs() }))
}
