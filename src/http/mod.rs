//! The HTTP surface: JSON and SSE, problem documents for every error.

mod accept;
mod admission;
mod agent_error;
mod aside;
mod auth;
mod blocks;
mod conditions;
mod cors;
mod deadline;
mod deletions;
mod detached;
mod docs;
mod document;
mod error;
mod event_types;
mod forwarded;
mod headers;
mod idempotency;
mod json_body;
mod large_body;
mod model_rules;
mod openapi;
mod pages;
mod permissions;
mod places;
mod probes;
mod rate_limit;
mod readiness;
mod refusals;
mod request_id;
mod request_span;
mod resources;
mod routes;
mod serve;
mod session_context;
mod session_system;
mod sse;
mod stream_form;
mod sub_agents;
mod taken;
mod target;
mod turns;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::{Router, middleware};
use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_http::catch_panic::CatchPanicLayer;

use crate::bus::Bus;
use crate::domain::price::Prices;
use crate::domain::request::RequestForm;
use crate::domain::run::{Limits, OnBusy};
use crate::metrics::Metrics;
use crate::outbound::AllowedHosts;
use crate::store::connections::{Connections, TenantConnections};
use crate::store::requests::Material;
use crate::tokens::Issuer;
use crate::tools::Registry;
use crate::tools::lease::LeaseClock;
use crate::tools::mcp::ToolServers;
use crate::tools::policy::OperatorPolicy;
use crate::tools::sandbox::Level;
use crate::tools::workspace::Roots;

use admission::Admission;
use auth::Keyring;
use deletions::Deletions;
pub use forwarded::{BadBasePath, BadProxy, BasePath, Forwarding, TrustedProxies};
use large_body::LargeBodies;
pub use model_rules::{ModelRules, is_beta};
pub use openapi::document;
pub use pages::Pages;
use places::Places;
use probes::Probes;
use rate_limit::RateLimit;
pub use readiness::LastLook;
pub use routes::agents::{BadAgentFile, OperatorAgents};
pub use serve::{Site, Timeouts, serve};
pub use session_context::MIN_COMPACT_AT;
use turns::Turns;

/// The largest request body, in bytes, but for messages and results, which may hold images.
const MAX_BODY: usize = 4 * 1024 * 1024;
/// The body of a message or of results, in bytes, unless somebody decides otherwise: what the model
/// takes in one request.
pub const MAX_MESSAGE: usize = 32_000_000;
/// The silence of a stream after which a comment is sent, unless somebody decides otherwise: less
/// than any common proxy waits.
pub const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);

/// Folders that are copied for forks at a time; each may have 256 MiB.
const COPIES: usize = 4;
/// Sessions that are verified at a time: each is read whole.
const VERIFICATIONS: usize = 2;
/// Requests that wait for their turn at one of these, and how long.
const IN_LINE: usize = 64;
const TURN_WITHIN: Duration = Duration::from_secs(10);

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
    /// The folders among which sessions may choose.
    pub workspace_roots: Roots,
    /// The names of the tools; all of them when absent.
    pub tools: Option<Vec<String>>,
    /// What sessions may ask of models.
    pub model_rules: ModelRules,
    /// The agents that all tenants have, besides those of the service itself.
    pub agents: OperatorAgents,
}

/// Makes the body of a request to the model again.
pub type Assemble = fn(&Material, &RequestForm) -> Result<Bytes, serde_json::Error>;

/// What it takes to say how the process is.
#[derive(Debug, Clone)]
pub struct Health {
    /// For what belongs to no tenant.
    pub pool: Connections,
    /// Fires when the process begins to stop.
    pub draining: CancellationToken,
    /// Where it is counted what happens.
    pub metrics: Arc<Metrics>,
    /// Whether that is told here, and not at an address of its own.
    pub tells_figures: bool,
    /// In what commands of the model run, if the process runs any.
    pub sandbox: Option<Level>,
    /// Whether the leases of the worker are renewed, if one works here.
    pub worker: Option<LeaseClock>,
    /// What was last seen of the database.
    pub last_look: LastLook,
    /// The servers of tools.
    pub tool_servers: Arc<ToolServers>,
}

/// How requests are met.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether requests need a key of the API.
    pub needs_keys: bool,
    /// Whose tokens are good where keys are.
    pub tokens: Option<Arc<Issuer>>,
    /// Where webhooks may be.
    pub webhook_hosts: Arc<AllowedHosts>,
    /// The silence of a stream after which a comment is sent.
    pub keep_alive_every: Duration,
    /// What a message means for a busy session when it does not say so itself.
    pub on_busy: OnBusy,
    /// Runs that may wait, of all sessions.
    pub max_queued: u32,
    /// How long clients may take.
    pub timeouts: Timeouts,
    /// The largest body of a message or of results, in bytes.
    pub max_message: usize,
    /// Streams held at a time.
    pub max_streams: usize,
    /// Streams that one key may hold at a time.
    pub max_streams_per_key: usize,
    /// Requests of one key in a minute; 0: as many as it likes.
    pub rate_limit: u32,
    /// What web pages may do.
    pub pages: Pages,
}

/// What handlers work with.
#[derive(Debug, Clone)]
pub struct Api {
    /// For requests, each of which sees what its caller's tenant has.
    pub pool: TenantConnections,
    /// For what belongs to no tenant.
    pub gate: Connections,
    /// Where work is announced and progress is told.
    pub bus: Arc<Bus>,
    /// The catalogue.
    pub tools: Arc<Registry>,
    /// What the operator says of permissions.
    pub permissions: Arc<OperatorPolicy>,
    /// What a session pins by default.
    pub defaults: Arc<Defaults>,
    /// How requests are met.
    pub options: Options,
    /// Fires when the service begins to stop: no longer ready, streams are torn.
    pub draining: CancellationToken,
    /// Posts in progress, those of clients that have left included, and what else is to be carried
    /// to its end.
    pub posts: TaskTracker,
    /// Where it is counted what happens.
    pub metrics: Arc<Metrics>,
    /// In what commands of the model run, if the process runs any.
    pub sandbox: Option<Level>,
    /// Makes the bodies of requests again.
    pub assemble: Assemble,
    /// Where sessions have the folders of their own.
    pub workspaces: Arc<Path>,
    places: Arc<Places>,
    waiting_places: Arc<Places>,
    admission: Arc<Admission>,
    large_bodies: LargeBodies,
    copies: Turns,
    deletions: Deletions,
    verifications: Turns,
    /// None: nobody is asked for a key.
    keyring: Option<Arc<Keyring>>,
    probes: Arc<Probes>,
    health: Health,
}

impl Api {
    /// What handlers work with.
    pub fn new(
        (health, pool): (Health, TenantConnections),
        bus: Arc<Bus>,
        tools: Arc<Registry>,
        permissions: Arc<OperatorPolicy>,
        (defaults, options): (Defaults, Options),
        (assemble, workspaces): (Assemble, &Path),
    ) -> Self {
        let Health { pool: gate, draining, metrics, sandbox, .. } = health.clone();
        let posts = TaskTracker::new();
        let places = || Arc::new(Places::new(options.max_streams, options.max_streams_per_key));
        let keyring = || {
            let tokens = options.tokens.clone();
            Arc::new(Keyring::new(gate.clone(), posts.clone(), tokens))
        };
        Self {
            keyring: options.needs_keys.then(keyring),
            pool,
            gate,
            bus,
            tools,
            permissions,
            defaults: Arc::new(defaults),
            draining,
            metrics,
            sandbox,
            assemble,
            workspaces: workspaces.into(),
            posts,
            places: places(),
            waiting_places: places(),
            admission: Arc::new(Admission::new(options.max_queued)),
            large_bodies: LargeBodies::new(options.max_message),
            copies: Turns::new(COPIES, IN_LINE, TURN_WITHIN),
            deletions: Deletions::new(),
            verifications: Turns::new(VERIFICATIONS, IN_LINE, TURN_WITHIN),
            probes: Arc::default(),
            health,
            options,
        }
    }
}

impl Api {
    /// Refuses agents of the operator as which no session could be made.
    pub async fn check_agents(&self) -> Result<(), BadAgentFile> {
        routes::agents::check_operators(self).await
    }
}

/// All routes.
pub fn router(api: Api) -> Router {
    let (v1, _) = openapi::routes().split_for_parts();
    let v1 = match RateLimit::new(api.options.rate_limit) {
        Some(limit) => v1.route_layer(from_fn_with_state(Arc::new(limit), rate_limit::layer)),
        None => v1,
    };
    let v1 = v1.route_layer(from_fn_with_state(api.keyring.clone(), auth::layer));
    let (pages, metrics) = (api.options.pages.clone(), Arc::clone(&api.metrics));
    let health = api.health.clone();
    // The version prefix is the promise; the bare paths are for people who type them.
    let router = Router::new()
        .merge(v1.clone())
        .nest("/v1", v1)
        .merge(operations(health))
        .fallback(error::no_route)
        .method_not_allowed_fallback(error::no_method)
        .layer(middleware::from_fn(deadline::layer))
        .layer(from_fn_with_state(api.clone(), detached::layer))
        .with_state(api)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(CatchPanicLayer::custom(error::panicked))
        .layer(from_fn_with_state(pages.clone(), pages::layer))
        .layer(from_fn_with_state(metrics, request_id::layer));
    if pages.origins.is_empty() { router } else { router.layer(cors::layer(&pages.origins)) }
}

/// The routes of a process that only works on runs.
pub fn health_router(health: Health) -> Router {
    let metrics = Arc::clone(&health.metrics);
    finished(operations(health), metrics)
}

/// The figures alone.
pub fn figures_router(health: Health) -> Router {
    let metrics = Arc::clone(&health.metrics);
    let (figures, _) = openapi::figures().split_for_parts();
    finished(figures.with_state(health), metrics)
}

fn finished(routes: Router, metrics: Arc<Metrics>) -> Router {
    routes
        .fallback(error::no_route)
        .method_not_allowed_fallback(error::no_method)
        .layer(CatchPanicLayer::custom(error::panicked))
        .layer(from_fn_with_state(metrics, request_id::layer))
}

fn operations<S: Clone + Send + Sync + 'static>(health: Health) -> Router<S> {
    let mut operations = openapi::operations();
    if health.tells_figures {
        operations = operations.merge(openapi::figures());
    }
    let (operations, _) = operations.split_for_parts();
    operations.with_state(health)
}
