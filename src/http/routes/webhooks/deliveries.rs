//! Deliveries of webhooks.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use http::{StatusCode, Uri};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::domain::ids::{DeliveryId, SessionId};
use crate::domain::string_enum::optional_string_enum;
use crate::domain::webhook::{Delivery, DeliveryState};
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::json_body::JsonBody;
use crate::http::extract::path::{DeliveryPath, WebhookPath};
use crate::http::extract::query::Params;
use crate::http::resources::Page;
use crate::http::routes::paging::{Order, page_request, respond};
use crate::http::state::Api;
use crate::service::Error;
use crate::service::webhooks::{self, DeliveryFilter, WebhookKey};
use crate::store::deliveries::Replay;

/// A delivery of an event to a webhook.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct DeliveryResource {
    /// `webhook_delivery`.
    r#type: &'static str,
    /// The id. It is sent in the header `webhook-id`.
    #[schema(value_type = String, example = "dlv_0193a7c2b8f07d3c9e41f2a6b5c8d7e0")]
    id: DeliveryId,
    /// The session of the event; null for a test.
    #[schema(value_type = Option<String>, required)]
    session_id: Option<SessionId>,
    /// The event: one of the webhook's events, or `webhook.test`.
    event: String,
    /// The state of the delivery.
    state: DeliveryState,
    /// The number of attempts since the delivery was created or replayed.
    attempts: i32,
    /// The time of the next attempt; null if there is none.
    #[schema(value_type = Option<String>, format = DateTime, required)]
    #[serde(serialize_with = "crate::domain::rfc3339::optional_time")]
    next_attempt_at: Option<Timestamp>,
    /// The HTTP status of the last response; null if there was none.
    #[schema(required)]
    last_status: Option<i32>,
    /// The reason why the last attempt failed.
    #[schema(required)]
    last_error: Option<String>,
    /// The time when the delivery was created.
    #[schema(value_type = String, format = DateTime)]
    #[serde(serialize_with = "crate::domain::rfc3339::time")]
    created_at: Timestamp,
    /// The time when the delivery was accepted or abandoned; null if it is pending.
    #[schema(value_type = Option<String>, format = DateTime, required)]
    #[serde(serialize_with = "crate::domain::rfc3339::optional_time")]
    ended_at: Option<Timestamp>,
}

impl From<Delivery> for DeliveryResource {
    fn from(delivery: Delivery) -> Self {
        Self {
            r#type: "webhook_delivery",
            id: delivery.id,
            session_id: delivery.session_id,
            event: delivery.event,
            state: delivery.state,
            attempts: delivery.attempts,
            next_attempt_at: delivery.next_attempt_at,
            last_status: delivery.last_status,
            last_error: delivery.last_error,
            created_at: delivery.created_at,
            ended_at: delivery.ended_at,
        }
    }
}

/// A queued test delivery.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct TestDelivery {
    /// The id of the delivery.
    #[schema(value_type = String)]
    id: DeliveryId,
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct ListDeliveries {
    /// Selects deliveries in this state.
    #[serde(default, deserialize_with = "optional_string_enum")]
    state: Option<DeliveryState>,
    /// Maximum number of items, 1 to 200.
    limit: Option<i64>,
    /// Returns the page after this delivery: the `next_cursor` of the previous page.
    after: Option<String>,
    /// Returns the page before this delivery.
    before: Option<String>,
    /// The order: `desc`, newest first, or `asc`. When absent, `desc`.
    #[param(inline)]
    order: Option<Order>,
}

/// The deliveries to send again.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct ReplayDeliveries {
    /// Selects deliveries that were created at this time or later. Deliveries are kept for 30 days.
    #[serde(deserialize_with = "crate::domain::rfc3339::parse")]
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    /// Selects deliveries in this final state. When absent, `failed`. Deliveries that are `pending`
    /// are sent in any case.
    #[serde(default, deserialize_with = "optional_string_enum")]
    state: Option<DeliveryState>,
}

/// The result of a replay.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct Replayed {
    /// The number of deliveries that will be sent again.
    replayed: u64,
}

/// Sends a test event of the type webhook.test.
#[utoipa::path(
    post, path = "/webhooks/{webhook_id}/test", operation_id = "test_webhook", tag = "webhooks",
    params(("webhook_id" = String, Path, description = "The id of the webhook.")),
    responses(
        (status = 202, description = "The test is queued.", body = TestDelivery),
        (status = 404, description = "`webhook_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`webhook_disabled`, `too_many_tests`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn test_webhook(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: WebhookPath,
) -> Result<(StatusCode, Json<TestDelivery>), ApiError> {
    let WebhookPath(id) = path;
    let webhook = WebhookKey { tenant: caller.tenant, id };
    let id = webhooks::send_test(&api.service, webhook).await?;
    Ok((StatusCode::ACCEPTED, Json(TestDelivery { id })))
}

/// Lists the deliveries of a webhook, by default newest first.
#[utoipa::path(
    get, path = "/webhooks/{webhook_id}/deliveries", operation_id = "list_deliveries", tag = "webhooks",
    params(("webhook_id" = String, Path, description = "The id of the webhook."), ListDeliveries),
    responses(
        (status = 200, description = "A page of deliveries.", body = Page<DeliveryResource>,
         headers(("link" = String, description = "Links to the `next` and `prev` page (RFC 8288)."))),
        (status = 400, description = "`invalid_cursor`, `invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`webhook_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn list_deliveries(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: WebhookPath,
    query: Params<ListDeliveries>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let (WebhookPath(id), Params(query)) = (path, query);
    let ListDeliveries { state, limit, after, before, order } = query;
    let request = page_request(limit, after, before, order.unwrap_or(Order::Desc))?;
    let filter = DeliveryFilter { webhook: WebhookKey { tenant: caller.tenant, id }, state };
    let page = webhooks::list_deliveries(&api.service, filter, request).await?;
    Ok(respond(page.map(DeliveryResource::from), &uri))
}

/// Sends a settled delivery again, with the same id and body.
#[utoipa::path(
    post, path = "/webhooks/{webhook_id}/deliveries/{delivery_id}/replay",
    operation_id = "replay_delivery", tag = "webhooks",
    params(
        ("webhook_id" = String, Path, description = "The id of the webhook."),
        ("delivery_id" = String, Path, description = "The id of the delivery."),
    ),
    responses(
        (status = 202, description = "The delivery is queued again.", body = Replayed),
        (status = 404, description = "`webhook_not_found`, `delivery_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`webhook_disabled`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn replay_delivery(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: DeliveryPath,
) -> Result<(StatusCode, Json<Replayed>), ApiError> {
    let DeliveryPath(webhook_id, id) = path;
    let webhook = WebhookKey { tenant: caller.tenant, id: webhook_id };
    match webhooks::replay_deliveries(&api.service, webhook, Replay::One(id)).await? {
        0 => Err(Error::DeliveryNotFound(id.to_string()).into()),
        replayed => Ok((StatusCode::ACCEPTED, Json(Replayed { replayed }))),
    }
}

/// Sends the settled deliveries since a time again.
#[utoipa::path(
    post, path = "/webhooks/{webhook_id}/replay", operation_id = "replay_deliveries", tag = "webhooks",
    params(("webhook_id" = String, Path, description = "The id of the webhook.")),
    request_body = ReplayDeliveries,
    responses(
        (status = 202, description = "The deliveries are queued again.", body = Replayed),
        (status = 400, description = "`bad_json`, `body_incomplete`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`webhook_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`webhook_disabled`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn replay_deliveries(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: WebhookPath,
    body: JsonBody<ReplayDeliveries>,
) -> Result<(StatusCode, Json<Replayed>), ApiError> {
    let (WebhookPath(id), JsonBody(ReplayDeliveries { since, state })) = (path, body);
    // No delivery is older than the epoch, and Postgres does not store every earlier time.
    let since = since.max(Timestamp::UNIX_EPOCH);
    let selection = Replay::Since(since, state.unwrap_or(DeliveryState::Failed));
    let webhook = WebhookKey { tenant: caller.tenant, id };
    let replayed = webhooks::replay_deliveries(&api.service, webhook, selection).await?;
    Ok((StatusCode::ACCEPTED, Json(Replayed { replayed })))
}
