//! Webhooks: HTTP endpoints of a tenant that receive the events of runs.

pub(in crate::http) mod deliveries;

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::header::LOCATION;
use jiff::Timestamp;
use serde::Serialize;

use crate::domain::ids::WebhookId;
use crate::domain::webhook::{Disabled, Webhook, WebhookEvent};
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::json_body::JsonBody;
use crate::http::extract::path::WebhookPath;
use crate::http::resources::Page;
use crate::http::server::forwarded::link;
use crate::http::state::Api;
use crate::service::webhooks::{self, CreateWebhook, OLD_SECRET_LIFETIME, UpdateWebhook};

/// A webhook.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct WebhookResource {
    /// `webhook`.
    r#type: &'static str,
    /// The id.
    #[schema(value_type = String, example = "whk_0193a7c2b8f07d3c9e41f2a6b5c8d7e0")]
    id: WebhookId,
    /// The URL that receives deliveries.
    url: String,
    /// A description for users.
    #[schema(required)]
    description: Option<String>,
    /// The events that are delivered.
    events: Vec<WebhookEvent>,
    /// True if events are delivered.
    enabled: bool,
    /// The reason why the webhook is disabled; null if it is enabled.
    #[schema(required)]
    disabled: Option<Disabled>,
    /// The time when the webhook was created.
    #[schema(value_type = String, format = DateTime)]
    #[serde(serialize_with = "crate::domain::rfc3339::time")]
    created_at: Timestamp,
    /// The time when the webhook was last changed.
    #[schema(value_type = String, format = DateTime)]
    #[serde(serialize_with = "crate::domain::rfc3339::time")]
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

/// A new webhook with the secret that signs its deliveries.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct CreatedWebhook {
    #[serde(flatten)]
    webhook: WebhookResource,
    /// The secret that signs deliveries. It is only returned here.
    #[schema(example = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")]
    secret: String,
}

/// A new secret of a webhook.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct RotatedSecret {
    /// `webhook_secret`.
    r#type: &'static str,
    /// The new secret. It is only returned here.
    secret: String,
    /// The time for which the previous secret also signs deliveries, in seconds.
    old_secret_seconds: u64,
}

/// Creates a webhook.
///
/// The response has the secret that signs deliveries. It is not returned again. A tenant can have at
/// most 20 webhooks.
#[utoipa::path(
    post, path = "/webhooks", operation_id = "create_webhook", tag = "webhooks",
    request_body = CreateWebhook,
    responses(
        (status = 201, description = "The webhook.", body = CreatedWebhook,
         headers(("location" = String, description = "The path of the webhook."))),
        (status = 400, description = "`bad_json`, `body_incomplete`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`too_many_webhooks`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "`quota_exceeded`: the tenant has the maximum number of webhooks; `rate_limited`: the key has sent too many requests.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn create_webhook(
    State(api): State<Arc<Api>>,
    caller: Caller,
    body: JsonBody<CreateWebhook>,
) -> Result<Response, ApiError> {
    let JsonBody(request) = body;
    let created = webhooks::create_webhook(&api.service, caller.tenant, request).await?;
    let location = link(format_args!("/webhooks/{}", created.webhook.id));
    let (webhook, secret) = (created.webhook.into(), created.secret.reveal());
    let created = CreatedWebhook { webhook, secret };
    Ok((StatusCode::CREATED, [(LOCATION, location)], Json(created)).into_response())
}

/// Lists all webhooks, oldest first.
#[utoipa::path(
    get, path = "/webhooks", operation_id = "list_webhooks", tag = "webhooks",
    responses((status = 200, description = "All webhooks.", body = Page<WebhookResource>))
)]
pub(in crate::http) async fn list_webhooks(
    State(api): State<Arc<Api>>,
    caller: Caller,
) -> Result<Json<Page<WebhookResource>>, ApiError> {
    let webhooks = webhooks::list_webhooks(&api.service, caller.tenant).await?;
    let data = webhooks.into_iter().map(WebhookResource::from).collect();
    Ok(Json(Page::whole(data)))
}

/// Retrieves a webhook.
#[utoipa::path(
    get, path = "/webhooks/{webhook_id}", operation_id = "get_webhook", tag = "webhooks",
    params(("webhook_id" = String, Path, description = "The id of the webhook.")),
    responses(
        (status = 200, description = "The webhook.", body = WebhookResource),
        (status = 404, description = "`webhook_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn get_webhook(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: WebhookPath,
) -> Result<Json<WebhookResource>, ApiError> {
    let WebhookPath(id) = path;
    let webhook = webhooks::find_webhook(&api.service, caller.tenant, id).await?;
    Ok(Json(webhook.into()))
}

/// Changes a webhook.
#[utoipa::path(
    patch, path = "/webhooks/{webhook_id}", operation_id = "update_webhook", tag = "webhooks",
    params(("webhook_id" = String, Path, description = "The id of the webhook.")),
    request_body(
        content(
            (UpdateWebhook = "application/merge-patch+json"),
            (UpdateWebhook = "application/json"),
        )
    ),
    responses(
        (status = 200, description = "The changed webhook.", body = WebhookResource),
        (status = 400, description = "`bad_json`, `body_incomplete`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`webhook_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn update_webhook(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: WebhookPath,
    body: JsonBody<UpdateWebhook>,
) -> Result<Json<WebhookResource>, ApiError> {
    let (WebhookPath(id), JsonBody(request)) = (path, body);
    let webhook = webhooks::update_webhook(&api.service, caller.tenant, id, request).await?;
    Ok(Json(webhook.into()))
}

/// Deletes a webhook with its queued deliveries.
#[utoipa::path(
    delete, path = "/webhooks/{webhook_id}", operation_id = "delete_webhook", tag = "webhooks",
    params(("webhook_id" = String, Path, description = "The id of the webhook.")),
    responses(
        (status = 204, description = "The webhook was deleted."),
        (status = 404, description = "`webhook_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn delete_webhook(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: WebhookPath,
) -> Result<StatusCode, ApiError> {
    let WebhookPath(id) = path;
    webhooks::delete_webhook(&api.service, caller.tenant, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Replaces the secret of a webhook.
///
/// For 24 hours deliveries have two signatures: one by the new secret and one by the previous one.
#[utoipa::path(
    post, path = "/webhooks/{webhook_id}/secret", operation_id = "rotate_webhook_secret", tag = "webhooks",
    params(("webhook_id" = String, Path, description = "The id of the webhook.")),
    responses(
        (status = 200, description = "The new secret.", body = RotatedSecret),
        (status = 404, description = "`webhook_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn rotate_webhook_secret(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: WebhookPath,
) -> Result<Json<RotatedSecret>, ApiError> {
    let WebhookPath(id) = path;
    let secret = webhooks::rotate_secret(&api.service, caller.tenant, id).await?;
    let (r#type, secret) = ("webhook_secret", secret.reveal());
    Ok(Json(RotatedSecret { r#type, secret, old_secret_seconds: OLD_SECRET_LIFETIME.as_secs() }))
}
