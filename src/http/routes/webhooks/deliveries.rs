//! What webhooks are told, and were.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use http::{StatusCode, Uri};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::PgConnection;

use super::unknown;
use crate::domain::ids::{DeliveryId, SessionId, TenantId, WebhookId};
use crate::domain::webhook::{Delivery, DeliveryState, WebhookEvent};
use crate::domain::word::words;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::json_body::JsonBody;
use crate::http::extract::path::{DeliveryPath, WebhookPath};
use crate::http::extract::query::Params;
use crate::http::resources::Page;
use crate::http::routes::paging::{Asked, Order};
use crate::http::server::deadline::in_time;
use crate::http::state::Api;
use crate::store::deliveries::{Replay, Selection, insert_test, list, replay};
use crate::store::webhooks::find;

/// Something that a webhook is told.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct DeliveryResource {
    /// `webhook_delivery`.
    r#type: &'static str,
    /// The id, which receivers get as `webhook-id`.
    #[schema(value_type = String, example = "dlv_0193a7c2b8f07d3c9e41f2a6b5c8d7e0")]
    id: DeliveryId,
    /// The session that it is about; null for a test.
    #[schema(value_type = Option<String>, required)]
    session_id: Option<SessionId>,
    /// Of what it tells: an event of the webhook, or `webhook.test`.
    event: String,
    /// How far it is.
    state: DeliveryState,
    /// How often it was sent, since it was made or sent once more.
    attempts: i32,
    /// When it is sent next; null if it is not.
    #[schema(value_type = Option<String>, format = DateTime, required)]
    next_attempt_at: Option<Timestamp>,
    /// The status of the last answer; null if there was none.
    #[schema(required)]
    last_status: Option<i32>,
    /// Why the last attempt was not taken.
    #[schema(required)]
    last_error: Option<String>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When it was taken, or given up.
    #[schema(value_type = Option<String>, format = DateTime, required)]
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

/// A test that was asked for.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct TestDelivery {
    /// The delivery.
    #[schema(value_type = String)]
    id: DeliveryId,
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct ListDeliveries {
    /// Only those in this state.
    #[serde(default, deserialize_with = "words")]
    state: Option<DeliveryState>,
    /// Items of the page, 1 to 200.
    limit: Option<i64>,
    /// The page behind this delivery; the `next_cursor` of the page before.
    after: Option<String>,
    /// The page before this delivery.
    before: Option<String>,
    /// `desc` when absent: newest first.
    #[param(inline)]
    order: Option<Order>,
}

/// Which deliveries to send once more.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct ReplayDeliveries {
    /// Those that were made then or later. They are kept for 30 days.
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    /// Those that ended like this; `failed` when absent. Those that are `pending` are sent anyway.
    #[serde(default, deserialize_with = "words")]
    state: Option<DeliveryState>,
}

/// What is sent once more.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct Replayed {
    /// How many deliveries.
    replayed: u64,
}

/// Finds that there is such a webhook, and that it is told things.
async fn check_enabled(
    conn: &mut PgConnection,
    (tenant, id): (TenantId, WebhookId),
) -> Result<(), ApiError> {
    let webhook = find(conn, tenant, id).await?.ok_or_else(|| unknown(id))?;
    if webhook.disabled.is_some() { Err(ApiError::WebhookDisabled) } else { Ok(()) }
}

/// Sends a test, `webhook.test`.
#[utoipa::path(
    post, path = "/webhooks/{webhook_id}/test", operation_id = "test_webhook", tag = "webhooks",
    params(("webhook_id" = String, Path, description = "The webhook.")),
    responses(
        (status = 202, description = "It will be sent.", body = TestDelivery),
        (status = 404, description = "`webhook_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`webhook_disabled`, `too_many_tests`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn test_webhook(
    State(api): State<Api>,
    caller: Caller,
    path: WebhookPath,
) -> Result<(StatusCode, Json<TestDelivery>), ApiError> {
    let WebhookPath(webhook_id) = path;
    let id = DeliveryId::new();
    let body = json!({ "type": WebhookEvent::TEST, "timestamp": Timestamp::now(), "data": {} });
    let stored = async {
        let mut conn = api.pool.acquire_as(caller.tenant).await?;
        let to = (caller.tenant, webhook_id);
        check_enabled(&mut conn, to).await?;
        let is_stored = insert_test(&mut conn, to, id, &body.to_string()).await?;
        conn.give_back();
        Ok(is_stored)
    };
    if !in_time(stored).await? {
        return Err(ApiError::TooManyTests);
    }
    Ok((StatusCode::ACCEPTED, Json(TestDelivery { id })))
}

/// Lists what a webhook is told and was, newest first unless `order` says otherwise.
#[utoipa::path(
    get, path = "/webhooks/{webhook_id}/deliveries", operation_id = "list_deliveries", tag = "webhooks",
    params(("webhook_id" = String, Path, description = "The webhook."), ListDeliveries),
    responses(
        (status = 200, description = "A page of deliveries.", body = Page<DeliveryResource>,
         headers(("link" = String, description = "Its neighbours: `next` and `prev` (RFC 8288)."))),
        (status = 400, description = "`invalid_cursor`, `invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`webhook_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn list_deliveries(
    State(api): State<Api>,
    caller: Caller,
    path: WebhookPath,
    query: Params<ListDeliveries>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let (WebhookPath(webhook_id), Params(query)) = (path, query);
    let ListDeliveries { state, limit, after, before, order } = query;
    let asked = Asked::read(limit, after, before, order.unwrap_or(Order::Desc))?;
    let tenant = caller.tenant;
    let selection = |slice| Selection { tenant, webhook_id, state, slice };
    let mut conn = api.pool.acquire_as(caller.tenant).await?;
    let webhook = find(&mut conn, caller.tenant, webhook_id).await?;
    webhook.ok_or_else(|| unknown(webhook_id))?;
    let deliveries = list(&mut conn, selection(asked.slice())).await?;
    let mut page = asked.page(deliveries, |delivery| delivery.id);
    if let Some(back) = page.back() {
        page.goes_back(!list(&mut conn, selection(back)).await?.is_empty());
    }
    conn.give_back();
    Ok(page.map(DeliveryResource::from).respond(&uri))
}

/// Sends a delivery once more that has ended, with the same id and body.
#[utoipa::path(
    post, path = "/webhooks/{webhook_id}/deliveries/{delivery_id}/replay",
    operation_id = "replay_delivery", tag = "webhooks",
    params(
        ("webhook_id" = String, Path, description = "The webhook."),
        ("delivery_id" = String, Path, description = "The delivery."),
    ),
    responses(
        (status = 202, description = "It will be sent.", body = Replayed),
        (status = 404, description = "`webhook_not_found`, `delivery_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`webhook_disabled`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn replay_delivery(
    State(api): State<Api>,
    caller: Caller,
    path: DeliveryPath,
) -> Result<(StatusCode, Json<Replayed>), ApiError> {
    let DeliveryPath(webhook_id, id) = path;
    let replayed = async {
        let mut conn = api.pool.acquire_as(caller.tenant).await?;
        let of = (caller.tenant, webhook_id);
        check_enabled(&mut conn, of).await?;
        let replayed = replay(&mut conn, of, Replay::One(id)).await?;
        conn.give_back();
        Ok(replayed)
    };
    match in_time(replayed).await? {
        0 => Err(ApiError::DeliveryNotFound(id.to_string())),
        replayed => Ok((StatusCode::ACCEPTED, Json(Replayed { replayed }))),
    }
}

/// Sends all deliveries once more that have ended in a way since a moment.
#[utoipa::path(
    post, path = "/webhooks/{webhook_id}/replay", operation_id = "replay_deliveries", tag = "webhooks",
    params(("webhook_id" = String, Path, description = "The webhook.")),
    request_body = ReplayDeliveries,
    responses(
        (status = 202, description = "They will be sent.", body = Replayed),
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
    State(api): State<Api>,
    caller: Caller,
    path: WebhookPath,
    body: JsonBody<ReplayDeliveries>,
) -> Result<(StatusCode, Json<Replayed>), ApiError> {
    let (WebhookPath(webhook_id), JsonBody(ReplayDeliveries { since, state })) = (path, body);
    // Nothing is older, and the database knows fewer years.
    let since = since.max(Timestamp::UNIX_EPOCH);
    let what = Replay::Since(since, state.unwrap_or(DeliveryState::Failed));
    let replayed = async {
        let mut conn = api.pool.acquire_as(caller.tenant).await?;
        let of = (caller.tenant, webhook_id);
        check_enabled(&mut conn, of).await?;
        let replayed = replay(&mut conn, of, what).await?;
        conn.give_back();
        Ok(replayed)
    };
    Ok((StatusCode::ACCEPTED, Json(Replayed { replayed: in_time(replayed).await? })))
}
