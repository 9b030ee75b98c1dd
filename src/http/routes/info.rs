//! What this service is, in short.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use super::MAX_LIMIT;
use crate::domain::run::OnBusy;
use crate::http::auth::Caller;
use crate::http::extract::body::MAX_BODY;
use crate::http::extract::headers::MAX_WAIT;
use crate::http::openapi::document;
use crate::http::state::Api;
use crate::store::accept::MAX_QUEUED;
use crate::store::agents::MAX_AGENTS;
use crate::store::webhooks::MAX_WEBHOOKS;

/// What this service is.
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
    /// Protocols of others, and whether they are spoken here.
    adapters: BTreeMap<&'static str, bool>,
}

/// How much of what the service takes.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct InfoLimits {
    /// Bytes of a body that holds messages or results.
    message_bytes: usize,
    /// Bytes of every other body.
    body_bytes: usize,
    /// Items of a page.
    page_items: i64,
    /// Seconds for which `Prefer: wait` keeps a request waiting.
    wait_seconds: u64,
    /// Messages of one session that wait.
    queued_messages: i32,
    /// Streams that a key may hold at each process.
    streams: usize,
    /// Requests that a key may send in a minute to each process; absent where it may send as many as
    /// it likes.
    #[serde(skip_serializing_if = "Option::is_none")]
    requests_per_minute: Option<u32>,
    /// Webhooks of a tenant.
    webhooks: i64,
    /// Agents of a tenant.
    agents: i64,
}

/// What the service does.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct InfoFeatures {
    /// Whether requests need a key or a token.
    keys: bool,
    /// Whether tokens of an identity provider are taken where keys are.
    tokens: bool,
    /// Whether sessions may have the permission mode `bypass`.
    bypass: bool,
    /// What a message means for a busy session if it does not say so itself.
    on_busy: OnBusy,
}

/// Protocols of others, and a path of each.
const ADAPTERS: [(&str, &str); 4] = [
    ("ag_ui", "/ag-ui"),
    ("ai_sdk", "/ai-sdk/chat"),
    ("anthropic", "/anthropic/v1/sessions"),
    ("openai", "/v1/chat/completions"),
];

/// Tells what this service is: its version, limits and features.
///
/// Which tools and models there are, `GET /v1/tools` and `GET /v1/models` say.
#[utoipa::path(
    get, path = "/info", operation_id = "get_info", tag = "service",
    responses((status = 200, description = "What it is.", body = InfoResource))
)]
pub(in crate::http) async fn get_info(
    State(api): State<Api>,
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
            bypass: api.permissions.allows_bypass,
            on_busy: options.on_busy,
        },
        adapters: adapters().clone(),
    })
}

/// Whatever is spoken here is in the document.
fn adapters() -> &'static BTreeMap<&'static str, bool> {
    static ADAPTERS_HERE: LazyLock<BTreeMap<&'static str, bool>> = LazyLock::new(|| {
        let paths = document().paths.paths;
        ADAPTERS.into_iter().map(|(name, path)| (name, paths.contains_key(path))).collect()
    });
    &ADAPTERS_HERE
}
