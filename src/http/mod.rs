//! The HTTP surface: JSON and SSE, problem documents for every error.

mod auth;
mod detached;
mod error;
mod extract;
mod openapi;
mod request_id;
mod resources;
mod routes;
mod serve;
mod sse;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::DefaultBodyLimit;
use axum::{Router, middleware};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_http::catch_panic::CatchPanicLayer;

use crate::bus::Bus;
use crate::domain::price::Prices;
use crate::domain::run::Limits;
use crate::store::connections::Connections;
use crate::tools::Registry;

pub use openapi::document;
pub use serve::{Timeouts, serve};

/// The largest request body, in bytes.
const MAX_BODY: usize = 4 * 1024 * 1024;
/// The silence of a stream after which a comment is sent, unless somebody decides otherwise: less
/// than any common proxy waits.
pub const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);
/// Streams held at a time.
const MAX_STREAMS: usize = 10_000;

/// What a session pins when its creation names nothing else.
#[derive(Debug, Clone)]
pub struct Defaults {
    /// The model.
    pub model: String,
    /// The output budget of one request.
    pub max_tokens: u32,
    /// The system prompt.
    pub system: String,
    /// The limits of a run.
    pub limits: Limits,
    /// What models cost, for limits of cost.
    pub prices: Prices,
    /// A folder for all sessions in place of one of their own.
    pub workspace: Option<String>,
}

/// What handlers work with.
#[derive(Debug, Clone)]
pub struct Api {
    /// For requests.
    pub pool: Connections,
    /// Where work is announced and progress is told.
    pub bus: Arc<Bus>,
    /// The catalogue.
    pub tools: Arc<Registry>,
    /// What a session pins by default.
    pub defaults: Arc<Defaults>,
    /// The silence of a stream after which a comment is sent.
    pub keep_alive_every: Duration,
    /// How long clients may take.
    pub timeouts: Timeouts,
    /// Fires when the service begins to stop: no longer ready, streams are torn.
    pub draining: CancellationToken,
    /// Posts in progress, those of clients that have left included.
    pub posts: TaskTracker,
    streams: Arc<Semaphore>,
}

impl Api {
    /// What handlers work with.
    pub fn new(
        pool: Connections,
        bus: Arc<Bus>,
        tools: Arc<Registry>,
        defaults: Defaults,
        keep_alive_every: Duration,
        draining: CancellationToken,
    ) -> Self {
        Self {
            pool,
            bus,
            tools,
            defaults: Arc::new(defaults),
            keep_alive_every,
            timeouts: Timeouts::default(),
            draining,
            posts: TaskTracker::new(),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
        }
    }

    /// The same for clients that may take another time.
    #[must_use]
    pub fn with_timeouts(self, timeouts: Timeouts) -> Self {
        Self { timeouts, ..self }
    }
}

/// All routes.
pub fn router(api: Api) -> Router {
    let (v1, _) = openapi::routes().split_for_parts();
    let (operations, _) = openapi::operations().split_for_parts();
    // The version prefix is the promise; the bare paths are for people who type them.
    Router::new()
        .merge(v1.clone())
        .nest("/v1", v1)
        .merge(operations)
        .fallback(error::no_route)
        .method_not_allowed_fallback(error::no_method)
        .layer(middleware::from_fn_with_state(api.clone(), detached::layer))
        .with_state(api)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(CatchPanicLayer::custom(error::panicked))
        .layer(middleware::from_fn(request_id::layer))
}
