//! The state that handlers share, and the configuration that it is made of.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRef;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::http::auth::{Caller, Keyring, MetricsAccess};
use crate::http::error::ApiError;
use crate::http::extract::body::BodyLimits;
use crate::http::extract::large_body::LargeBodies;
use crate::http::server::browser_guard::BrowserPolicy;
use crate::http::server::readiness::Health;
use crate::http::server::serve::Timeouts;
use crate::http::server::stream_permits::{StreamPermit, StreamPermits};
use crate::http::stream::probes::Probes;
use crate::metrics::Metrics;
use crate::service::{Error, Service};
use crate::tokens::Issuer;
use sandbox::Level;

/// The default maximum size of a message or of tool results in bytes: the maximum of one model
/// request.
pub const MAX_MESSAGE: usize = 32_000_000;
/// The default keep-alive interval of streams: shorter than the idle timeouts of common proxies and
/// hosts, of which some close a connection after less than 15 s.
pub const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// The configuration of the HTTP interface.
#[derive(Debug, Clone)]
pub struct Options {
    /// Requires an API key or a token.
    pub needs_keys: bool,
    /// The callers that may read `/metrics` at the address of the API.
    pub metrics_access: MetricsAccess,
    /// The identity provider whose tokens are accepted.
    pub tokens: Option<Arc<Issuer>>,
    /// The keep-alive interval of silent streams.
    pub keep_alive_every: Duration,
    /// The timeouts of clients.
    pub timeouts: Timeouts,
    /// The maximum size of a message or of tool results in bytes.
    pub max_message: usize,
    /// The maximum number of open streams.
    pub max_streams: usize,
    /// The maximum number of open streams of one key.
    pub max_streams_per_key: usize,
    /// The maximum requests of one key per minute; 0 for no limit.
    pub rate_limit: u32,
    /// Serves the page at `/app/`.
    pub page: bool,
    /// The origins and hosts that web pages may use.
    pub browser_policy: BrowserPolicy,
}

/// The state that handlers share.
#[derive(Debug)]
pub struct Api {
    /// The use cases.
    pub service: Arc<Service>,
    /// The configuration of the HTTP interface.
    pub options: Options,
    /// Fires when the process begins to stop: it is no longer ready, and streams are aborted.
    pub draining: CancellationToken,
    /// Requests that change something, which continue when their clients disconnect, and background
    /// work that has to be completed.
    pub tasks: TaskTracker,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The level of the sandbox, if the process runs commands of the model.
    pub sandbox: Option<Level>,
    pub(in crate::http) stream_permits: Arc<StreamPermits>,
    pub(in crate::http) wait_permits: Arc<StreamPermits>,
    pub(in crate::http) large_bodies: LargeBodies,
    /// None if requests need no key.
    pub(in crate::http) keyring: Option<Arc<Keyring>>,
    pub(in crate::http) probes: Arc<Probes>,
    pub(in crate::http) health: Health,
}

impl Api {
    /// The state for handlers that call this service.
    pub fn new(health: Health, service: Arc<Service>, options: Options) -> Self {
        let Health { draining, metrics, sandbox, .. } = health.clone();
        let tasks = service.tasks.clone();
        let permits =
            || Arc::new(StreamPermits::new(options.max_streams, options.max_streams_per_key));
        let keyring = || {
            let tokens = options.tokens.clone();
            Arc::new(Keyring::new(service.admission_pool.clone(), tasks.clone(), tokens))
        };
        Self {
            keyring: options.needs_keys.then(keyring),
            draining,
            metrics,
            sandbox,
            tasks,
            stream_permits: permits(),
            wait_permits: permits(),
            large_bodies: LargeBodies::new(options.max_message),
            probes: Arc::default(),
            health,
            options,
            service,
        }
    }
}

impl Api {
    /// A permit to hold a stream, unless the service is stopping or holds the maximum already.
    pub(in crate::http) fn stream_permit(&self, caller: &Caller) -> Result<StreamPermit, ApiError> {
        if self.draining.is_cancelled() {
            return Err(Error::Draining.into());
        }
        let permits = Arc::clone(&self.stream_permits);
        permits.acquire(caller.holder()).map_err(ApiError::TooManyStreams)
    }

    /// A permit to wait for the answer of a run. There are as many as for streams.
    pub(in crate::http) fn wait_permit(&self, caller: &Caller) -> Result<StreamPermit, ApiError> {
        let permits = Arc::clone(&self.wait_permits);
        permits.acquire(caller.holder()).map_err(ApiError::TooManyWaits)
    }
}

impl FromRef<Arc<Api>> for BodyLimits {
    fn from_ref(api: &Arc<Api>) -> Self {
        Self { timeout: api.options.timeouts.body, draining: api.draining.clone() }
    }
}

impl FromRef<Arc<Api>> for LargeBodies {
    fn from_ref(api: &Arc<Api>) -> Self {
        api.large_bodies.clone()
    }
}
