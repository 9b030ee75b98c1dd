//! The configuration of a service under test.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sandbox::{Sandbox, Setting};
use simulator::Running;
use sqlx::postgres::PgConnectOptions;
use twostep::config::{
    Collector, Config, Database, Listen, ModelSource, ReloadableFiles, Serve, Work,
};
use twostep::domain::limits::Limits;
use twostep::domain::permission::PermissionMode;
use twostep::domain::price::Prices;
use twostep::domain::prompt_cache::CacheTtl;
use twostep::domain::provider::Provider;
use twostep::domain::quota::QuotaLimits;
use twostep::domain::run_options::OnBusy;
use twostep::domain::session::InterruptedReplies;
use twostep::http::{
    Forwarding, KEEP_ALIVE_INTERVAL, MAX_MESSAGE, MetricsAccess, Options as HttpOptions, Timeouts,
};
use twostep::model::NamedServer;
use twostep::outbound::AllowedHosts;
use twostep::service::{Defaults, ModelRules, OperatorAgents, Options as ServiceOptions};
use twostep::tokens::Issuer;
use twostep::tools::builtin::bash::Bash;
use twostep::tools::mcp::ServerSettings;
use twostep::tools::policy::OperatorPolicy;
use twostep::tools::workspace::Roots;
use twostep::tools::{Tool, builtin};

use super::{SYSTEM, TestDatabase, browser_policy, model_server};

/// The settings of a service that differ from those of most tests.
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
#[derive(Default)]
pub(crate) struct Setup {
    pub(crate) options: builtin::Options,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) tool_servers: Vec<ServerSettings>,
    pub(crate) workspace_roots: Vec<PathBuf>,
    pub(crate) bash: Setting,
    pub(crate) limits: Limits,
    pub(crate) permissions: Option<OperatorPolicy>,
    pub(crate) prices: Prices,
    pub(crate) model_rules: ModelRules,
    pub(crate) refresh_models: bool,
    pub(crate) model: Option<&'static str>,
    /// The lifetime of prompt cache entries [default: five minutes].
    pub(crate) prompt_cache: Option<CacheTtl>,
    /// Report the tokens that a prompt cache would have read and written.
    pub(crate) simulates_cache: bool,
    /// The context window of the model, for tests of a small one.
    pub(crate) window: Option<u64>,
    pub(crate) provider: Provider,
    /// Further model providers.
    pub(crate) providers: Vec<NamedServer>,
    pub(crate) slots: Option<usize>,
    pub(crate) history_memory: Option<usize>,
    pub(crate) keep_alive_every: Option<Duration>,
    pub(crate) on_busy: OnBusy,
    pub(crate) interrupted_replies: InterruptedReplies,
    pub(crate) generate_title: bool,
    pub(crate) max_queued: Option<u32>,
    pub(crate) timeouts: Timeouts,
    pub(crate) max_message: Option<usize>,
    pub(crate) max_streams: Option<usize>,
    pub(crate) max_streams_per_key: Option<usize>,
    /// Requests per minute; 0 for no limit.
    pub(crate) rate_limit: u32,
    pub(crate) no_page: bool,
    pub(crate) cors_origins: Vec<&'static str>,
    /// The accepted `Host` headers; `None` accepts all.
    pub(crate) allowed_hosts: Option<Vec<&'static str>>,
    pub(crate) model_idle_timeout: Option<Duration>,
    /// How long running work may take at shutdown [default: runs are requeued at once].
    pub(crate) drain_for: Duration,
    /// Connection options that replace the direct ones, for a test with a proxy.
    pub(crate) database: Option<PgConnectOptions>,
    /// The maximum number of connections to the database.
    pub(crate) database_connections: Option<u32>,
    pub(crate) needs_keys: bool,
    /// The identity provider whose tokens are accepted.
    pub(crate) tokens: Option<Arc<Issuer>>,
    /// Private hosts to which webhooks may be sent.
    pub(crate) webhook_hosts: AllowedHosts,
    /// The agents that the operator defines.
    pub(crate) agents: OperatorAgents,
    pub(crate) forwarding: Forwarding,
    pub(crate) no_api: bool,
    pub(crate) no_worker: bool,
    /// The URL of a trace collector.
    pub(crate) traces: Option<String>,
    /// Each session has a workspace of its own.
    pub(crate) own_folders: bool,
    /// The quotas of tenants that have none of their own.
    pub(crate) quotas: QuotaLimits,
}

/// A policy that allows every call: most tests are not about permissions.
fn allow_everything() -> OperatorPolicy {
    let (default_mode, allows_bypass) = (PermissionMode::Bypass, true);
    OperatorPolicy { default_mode, allows_bypass, ..OperatorPolicy::default() }
}

/// The options of the built-in tools, and all tools. A tool of the test replaces a built-in tool of
/// the same name.
fn tools_of(
    bash: Setting,
    options: builtin::Options,
    own: Vec<Arc<dyn Tool>>,
) -> (builtin::Options, Vec<Arc<dyn Tool>>) {
    let sandbox = Sandbox::with_helper(bash, env!("CARGO_BIN_EXE_twostep").into());
    let bash = sandbox.map(|sandbox| Bash::new(sandbox, Duration::from_mins(2)));
    let options = builtin::Options { bash, ..options };
    let mut tools = builtin::all(&options);
    tools.retain(|tool| own.iter().all(|other| other.name() != tool.name()));
    tools.extend(own);
    (options, tools)
}

/// The workspace of all sessions, if they share one. The basic sandbox level needs a workspace that no
/// other session uses.
fn shared_workspace(bash: Setting, own_folders: bool, folder: &Path) -> Option<String> {
    (bash != Setting::Basic && !own_folders)
        .then(|| folder.canonicalize().unwrap().to_str().unwrap().to_owned())
}

fn work_of(simulator: &Running, setup: &Setup) -> Work {
    let idle = setup.model_idle_timeout.unwrap_or(Duration::from_secs(10));
    Work {
        model: ModelSource::Server(model_server::of(simulator, setup.provider, idle)),
        providers: setup.providers.clone(),
        model_idle_timeout: idle,
        prompt_cache: Some(setup.prompt_cache.unwrap_or_default()),
        slots: setup.slots.unwrap_or(16),
        history_memory: setup.history_memory.unwrap_or(usize::MAX),
        drain_for: setup.drain_for,
        webhook_hosts: setup.webhook_hosts.clone(),
        quotas: setup.quotas,
    }
}

pub(super) fn config(
    simulator: &Running,
    database: &TestDatabase,
    (folder, state): (&Path, &Path),
    setup: Setup,
) -> Config {
    let work = work_of(simulator, &setup);
    let (options, tools) = tools_of(setup.bash, setup.options, setup.tools);
    let hosts = setup.allowed_hosts.as_deref();
    let serve = Serve {
        bootstrap_key: None,
        bind: "127.0.0.1:0".parse().unwrap(),
        service: ServiceOptions {
            defaults: Defaults {
                model: setup.model.unwrap_or("simulator").to_owned(),
                max_tokens: 1000,
                system: SYSTEM.to_owned(),
                limits: setup.limits,
                interrupted_replies: setup.interrupted_replies,
                generate_title: setup.generate_title,
                prices: setup.prices.into(),
                workspace: shared_workspace(setup.bash, setup.own_folders, folder),
                workspace_roots: Roots::new(setup.workspace_roots),
                tools: None,
                model_rules: setup.model_rules,
                agents: setup.agents.into(),
            },
            on_busy: setup.on_busy,
            max_queued: setup.max_queued.unwrap_or(1000),
            webhook_hosts: setup.webhook_hosts,
            quotas: setup.quotas,
        },
        http: HttpOptions {
            needs_keys: setup.needs_keys,
            metrics_access: MetricsAccess::Open,
            tokens: setup.tokens,
            keep_alive_every: setup.keep_alive_every.unwrap_or(KEEP_ALIVE_INTERVAL),
            timeouts: setup.timeouts,
            max_message: setup.max_message.unwrap_or(MAX_MESSAGE),
            max_streams: setup.max_streams.unwrap_or(10_000),
            max_streams_per_key: setup.max_streams_per_key.unwrap_or(200),
            rate_limit: setup.rate_limit,
            page: !setup.no_page,
            browser_policy: browser_policy::of(setup.needs_keys, &setup.cors_origins, hosts),
        },
        forwarding: setup.forwarding,
        refresh_models: setup.refresh_models,
    };
    Config {
        metrics: None,
        listen: if setup.no_api { Listen::Nowhere } else { Listen::Api(Box::new(serve)) },
        database: Database::Server(Box::new(setup.database.unwrap_or_else(|| database.options()))),
        database_connections: setup.database_connections,
        work: (!setup.no_worker).then_some(work),
        data_dir: None,
        workspaces: folder.join("workspaces"),
        state_dir: state.to_owned(),
        tools,
        tool_servers: setup.tool_servers,
        options,
        traces: setup
            .traces
            .map(|url| Collector { url: url.parse().unwrap(), headers: HashMap::new() }),
        reload: ReloadableFiles::default(),
        permissions: setup.permissions.unwrap_or_else(allow_everything),
    }
}
