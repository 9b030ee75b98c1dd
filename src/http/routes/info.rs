//! The version, the limits and the features of the service.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::LazyLock;

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use super::MAX_LIMIT;
use crate::domain::run_options::OnBusy;
use crate::domain::webhook::MAX_WEBHOOKS;
use crate::http::auth::Caller;
use crate::http::extract::body::MAX_BODY;
use crate::http::extract::headers::MAX_WAIT;
use crate::http::openapi::document;
use crate::http::state::Api;
use crate::store::accept::MAX_QUEUED;
use crate::store::agents::MAX_AGENTS;

/// The version, the limits and the features of the service.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct InfoResource {
    /// `info`.
    r#type: &'static str,
    /// The program's version.
    version: &'static str,
    /// The version of the API, which is the prefix of its paths.
    api_version: &'static str,
    limits: InfoLimits,
    features: InfoFeatures,
    /// Other protocols, and whether this service supports them.
    adapters: BTreeMap<&'static str, bool>,
}

/// The limits of the service.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct InfoLimits {
    /// The largest body with messages or results, in bytes.
    message_bytes: usize,
    /// The largest other body, in bytes.
    body_bytes: usize,
    /// The largest number of items per page.
    page_items: i64,
    /// The longest wait of `Prefer: wait`, in seconds.
    wait_seconds: u64,
    /// The largest number of queued messages of a session.
    queued_messages: i32,
    /// The largest number of open streams of a key at each process.
    streams: usize,
    /// The largest number of requests of a key per minute at each process; absent if there is no
    /// limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    requests_per_minute: Option<u32>,
    /// The largest number of webhooks of a tenant.
    webhooks: i64,
    /// The largest number of agents of a tenant.
    agents: i64,
}

/// The features of the service.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct InfoFeatures {
    /// True if requests need a key or a token.
    keys: bool,
    /// True if tokens of an identity provider are accepted in addition to keys.
    tokens: bool,
    /// True if sessions may have the permission mode `bypass`.
    bypass: bool,
    /// The default effect of a message on a busy session.
    on_busy: OnBusy,
}

/// Other protocols, and a path of each.
const ADAPTERS: [(&str, &str); 5] = [
    ("ag_ui", "/ag-ui"),
    ("ai_sdk", "/ai-sdk/chat"),
    ("anthropic", "/anthropic/v1/sessions"),
    ("openai", "/openai/v1/chat/completions"),
    ("openai_responses", "/openai/v1/responses"),
];

/// Returns the version, the limits and the features of the service.
///
/// `GET /v1/tools` and `GET /v1/models` list its tools and models.
#[utoipa::path(
    get, path = "/info", operation_id = "get_info", tag = "service",
    responses((status = 200, description = "The version, the limits and the features.", body = InfoResource))
)]
pub(in crate::http) async fn get_info(
    State(api): State<Arc<Api>>,
    _caller: Caller,
) -> Json<InfoResource> {
    let options = &api.options;
    Json(InfoResource {
        r#type: "info",
        version: env!("CARGO_PKG_VERSION"),
        api_version: "v1",
        limits: InfoLimits {
            message_bytes: options.max_message,
            body_bytes: MAX_BODY,
            page_items: MAX_LIMIT,
            wait_seconds: MAX_WAIT,
            queued_messages: MAX_QUEUED,
            streams: options.max_streams.min(options.max_streams_per_key),
            requests_per_minute: (options.rate_limit > 0).then_some(options.rate_limit),
            webhooks: MAX_WEBHOOKS,
            agents: MAX_AGENTS,
        },
        features: InfoFeatures {
            keys: options.needs_keys,
            tokens: options.tokens.is_some(),
            bypass: api.service.permissions.allows_bypass,
            on_busy: api.service.on_busy,
        },
        adapters: adapters().clone(),
    })
}

/// The supported protocols: those whose path is in the OpenAPI document.
fn adapters() -> &'static BTreeMap<&'static str, bool> {
    static ADAPTERS_HERE: LazyLock<BTreeMap<&'static str, bool>> = LazyLock::new(|| {
        let paths = document().paths.paths;
        ADAPTERS.into_iter().map(|(name, path)| (name, paths.contains_key(path))).collect()
    });
    &ADAPTERS_HERE
}
