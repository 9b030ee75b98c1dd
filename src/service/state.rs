//! The state that the use cases share, and the parts that it is made of.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use tokio_util::task::TaskTracker;

use super::admission::Admission;
use super::agents::shared_agent::OperatorAgents;
use super::change_feed::feed::ChangeFeed;
use super::concurrency_limit::{ConcurrencyLimit, MAX_WAIT, MAX_WAITING};
use super::deletion_permits::DeletionPermits;
use super::known_sessions::KnownSessions;
use super::session_settings::model_rules::ModelRules;
use crate::bus::Bus;
use crate::domain::limits::Limits;
use crate::domain::price::Prices;
use crate::domain::quota::QuotaLimits;
use crate::domain::reloadable::Reloadable;
use crate::domain::request::RequestForm;
use crate::domain::run_options::OnBusy;
use crate::domain::session::InterruptedReplies;
use crate::metrics::Metrics;
use crate::outbound::AllowedHosts;
use crate::store::accept::EncodedAccept;
use crate::store::connections::{Connections, TenantConnections};
use crate::store::group_commit::TenantGroups;
use crate::store::quotas::Quotas;
use crate::store::requests::RequestSources;
use crate::tools::Registry;
use crate::tools::policy::OperatorPolicy;
use crate::tools::workspace::Roots;

/// The number of workspaces that are copied for forks at once; each may have 256 MiB.
const MAX_COPIES: usize = 4;
/// The number of sessions that are verified at once; each is read completely.
const MAX_VERIFICATIONS: usize = 2;

/// The defaults of new sessions.
#[derive(Debug, Clone)]
pub struct Defaults {
    /// The model.
    pub model: String,
    /// The output budget of one model request, in tokens.
    pub max_tokens: u32,
    /// The system prompt.
    pub system: String,
    /// The limits of a run.
    pub limits: Limits,
    /// The treatment of replies that clients interrupt.
    pub interrupted_replies: InterruptedReplies,
    /// Whether the model makes titles.
    pub generate_title: bool,
    /// The prices of models, for limits of cost.
    pub prices: Reloadable<Prices>,
    /// One workspace for all sessions, instead of one per session.
    pub workspace: Option<String>,
    /// The folders that sessions may name as their workspace.
    pub workspace_roots: Roots,
    /// The names of the tools; all tools when absent.
    pub tools: Option<Vec<String>>,
    /// The rules for the model settings of sessions.
    pub model_rules: ModelRules,
    /// The agents that all tenants have, besides those of the service itself.
    pub agents: Reloadable<OperatorAgents>,
}

/// The settings of the operator for the use cases.
#[derive(Debug, Clone)]
pub struct Options {
    /// The defaults of new sessions.
    pub defaults: Defaults,
    /// The effect of a message on a busy session, if the message does not name one.
    pub on_busy: OnBusy,
    /// The maximum number of queued runs, over all sessions.
    pub max_queued: u32,
    /// The hosts that webhooks may name.
    pub webhook_hosts: AllowedHosts,
    /// The quotas of tenants that have none of their own.
    pub quotas: QuotaLimits,
}

/// Regenerates the body of a model request.
pub type Assemble = fn(&RequestSources, &RequestForm) -> Result<Bytes, serde_json::Error>;

/// The parts of which a [`Service`] is made.
#[derive(Debug)]
pub struct Parts {
    /// Connections that see the rows of one tenant.
    pub pool: TenantConnections,
    /// Connections that see all tenants: for authentication, admission and verification.
    pub admission_pool: Connections,
    /// The bus, which announces work and publishes events.
    pub bus: Arc<Bus>,
    /// The catalog of tools.
    pub tools: Arc<Registry>,
    /// The permission policy of the operator.
    pub permissions: Arc<OperatorPolicy>,
    /// The settings of the operator.
    pub options: Options,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// Regenerates the bodies of model requests.
    pub assemble: Assemble,
    /// The folder with the workspaces of sessions.
    pub workspaces: Arc<Path>,
}

/// The state that the use cases share.
pub struct Service {
    pub(crate) pool: TenantConnections,
    /// The messages that requests accept at the moment.
    pub(crate) accepts: TenantGroups<EncodedAccept>,
    pub(crate) admission_pool: Connections,
    pub(crate) bus: Arc<Bus>,
    pub(crate) tools: Arc<Registry>,
    pub(crate) permissions: Arc<OperatorPolicy>,
    pub(crate) defaults: Defaults,
    pub(crate) on_busy: OnBusy,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) assemble: Assemble,
    pub(crate) workspaces: Arc<Path>,
    pub(crate) admission: Admission,
    pub(crate) webhook_hosts: AllowedHosts,
    pub(crate) quotas: Quotas,
    pub(crate) change_feed: ChangeFeed,
    /// Work that continues after its request, and that the shutdown waits for.
    pub(crate) tasks: TaskTracker,
    pub(crate) copies: ConcurrencyLimit,
    pub(super) deletions: DeletionPermits,
    pub(super) known_sessions: KnownSessions,
    pub(crate) verifications: ConcurrencyLimit,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").finish_non_exhaustive()
    }
}

impl Service {
    /// Makes a service of its parts.
    pub fn new(parts: Parts) -> Self {
        let limit = |running| ConcurrencyLimit::new(running, MAX_WAITING, MAX_WAIT);
        let Parts { pool, admission_pool, bus, tools, permissions, options, .. } = parts;
        let quotas = Quotas::new(admission_pool.clone(), options.quotas);
        Self {
            accepts: TenantGroups::new(pool.clone()),
            pool,
            admission_pool,
            bus,
            tools,
            permissions,
            defaults: options.defaults,
            on_busy: options.on_busy,
            metrics: parts.metrics,
            assemble: parts.assemble,
            workspaces: parts.workspaces,
            admission: Admission::new(options.max_queued),
            webhook_hosts: options.webhook_hosts,
            quotas,
            change_feed: ChangeFeed::default(),
            tasks: TaskTracker::new(),
            copies: limit(MAX_COPIES),
            deletions: DeletionPermits::new(),
            known_sessions: KnownSessions::default(),
            verifications: limit(MAX_VERIFICATIONS),
        }
    }
}
