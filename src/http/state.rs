//! The state that handlers share, and the configuration that it is made of.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRef;
use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::bus::Bus;
use crate::domain::price::Prices;
use crate::domain::request::RequestForm;
use crate::domain::run::{Limits, OnBusy};
use crate::http::admission::Admission;
use crate::http::auth::{Caller, Keyring};
use crate::http::deletions::Deletions;
use crate::http::error::ApiError;
use crate::http::extract::body::BodyLimits;
use crate::http::extract::large_body::LargeBodies;
use crate::http::model_rules::ModelRules;
use crate::http::routes::agents::{BadAgentFile, OperatorAgents, check_operators};
use crate::http::server::browser_guard::BrowserPolicy;
use crate::http::server::concurrency_limit::ConcurrencyLimit;
use crate::http::server::readiness::Health;
use crate::http::server::serve::Timeouts;
use crate::http::server::stream_permits::{StreamPermit, StreamPermits};
use crate::http::stream::probes::Probes;
use crate::metrics::Metrics;
use crate::outbound::AllowedHosts;
use crate::store::connections::{Connections, TenantConnections};
use crate::store::requests::Material;
use crate::tokens::Issuer;
use crate::tools::Registry;
use crate::tools::policy::OperatorPolicy;
use crate::tools::workspace::Roots;
use sandbox::Level;

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
    pub browser_policy: BrowserPolicy,
}

/// What handlers work with.
#[derive(Debug, Clone)]
pub struct Api {
    /// For requests, each of which sees what its caller's tenant has.
    pub pool: TenantConnections,
    /// For what belongs to no tenant.
    pub admission_pool: Connections,
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
    pub(in crate::http) stream_permits: Arc<StreamPermits>,
    pub(in crate::http) wait_permits: Arc<StreamPermits>,
    pub(in crate::http) admission: Arc<Admission>,
    pub(in crate::http) large_bodies: LargeBodies,
    pub(in crate::http) copies: ConcurrencyLimit,
    pub(in crate::http) deletions: Deletions,
    pub(in crate::http) verifications: ConcurrencyLimit,
    /// None: nobody is asked for a key.
    pub(in crate::http) keyring: Option<Arc<Keyring>>,
    pub(in crate::http) probes: Arc<Probes>,
    pub(in crate::http) health: Health,
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
        let Health { pool: admission_pool, draining, metrics, sandbox, .. } = health.clone();
        let posts = TaskTracker::new();
        let permits =
            || Arc::new(StreamPermits::new(options.max_streams, options.max_streams_per_key));
        let keyring = || {
            let tokens = options.tokens.clone();
            Arc::new(Keyring::new(admission_pool.clone(), posts.clone(), tokens))
        };
        Self {
            keyring: options.needs_keys.then(keyring),
            pool,
            admission_pool,
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
            stream_permits: permits(),
            wait_permits: permits(),
            admission: Arc::new(Admission::new(options.max_queued)),
            large_bodies: LargeBodies::new(options.max_message),
            copies: ConcurrencyLimit::of_requests(COPIES),
            deletions: Deletions::new(),
            verifications: ConcurrencyLimit::of_requests(VERIFICATIONS),
            probes: Arc::default(),
            health,
            options,
        }
    }
}

impl Api {
    /// Refuses agents of the operator as which no session could be made.
    pub async fn check_agents(&self) -> Result<(), BadAgentFile> {
        check_operators(self).await
    }

    /// A permit to hold a stream, unless the service is stopping or holds the maximum already.
    pub(in crate::http) fn stream_permit(&self, caller: Caller) -> Result<StreamPermit, ApiError> {
        if self.draining.is_cancelled() {
            return Err(ApiError::Draining);
        }
        let permits = Arc::clone(&self.stream_permits);
        permits.acquire(caller.holder()).map_err(ApiError::TooManyStreams)
    }

    /// A permit to wait for the answer of a run. There are as many as for streams.
    pub(in crate::http) fn wait_permit(&self, caller: Caller) -> Result<StreamPermit, ApiError> {
        let permits = Arc::clone(&self.wait_permits);
        permits.acquire(caller.holder()).map_err(ApiError::TooManyWaits)
    }
}

impl FromRef<Api> for BodyLimits {
    fn from_ref(api: &Api) -> Self {
        Self { timeout: api.options.timeouts.body, draining: api.draining.clone() }
    }
}

impl FromRef<Api> for LargeBodies {
    fn from_ref(api: &Api) -> Self {
        api.large_bodies.clone()
    }
}
