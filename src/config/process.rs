//! The configuration of a process, from the options of `serve` and `worker`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::args::{Auth, DatabaseArgs, ServeArgs, WorkArgs, WorkerArgs};
use super::bootstrap::bootstrap_key;
use super::edge::Page;
use super::environment::secret;
use super::memory::default_history_memory;
use super::model_providers::ModelProviders;
use super::models::DefaultProvider;
use super::settings::{Config, Database, Listen, ModelSource, ReloadableFiles, Serve, Work};
use crate::domain::provider::Provider;
use crate::http::{KEEP_ALIVE_INTERVAL, MetricsAccess, Options as HttpOptions, Timeouts};
use crate::outbound::AllowedHosts;
use crate::service::Options as ServiceOptions;

const DEFAULT_MODEL: &str = "claude-sonnet-5-5";
/// The model name of the simulator. It is never the name of a real model.
const SIMULATOR: &str = "simulator";
/// The variable with the key for metrics, and the minimum length of the key.
const METRICS_KEY: &str = "TWOSTEP_METRICS_KEY";
const MIN_METRICS_KEY: usize = 16;

impl ServeArgs {
    /// Checks the options against each other.
    pub fn into_config(self) -> anyhow::Result<Config> {
        #[cfg(feature = "faults")]
        self.work.faults.arm();
        let needs_keys = needs_keys(self.auth, self.bind)?;
        let providers = self.work.model_providers()?;
        let work = if self.no_worker { None } else { Some(self.work.check(&providers)?) };
        let config = self.work.config(&self.database)?;
        let (agents, prices) = (self.session.agents.clone(), self.session.prices.clone());
        let provider_prices = providers.prices();
        let reload = ReloadableFiles { agents, prices, provider_prices, ..config.reload.clone() };
        let refresh_models = self.session.models.refresh_models;
        let default = DefaultProvider {
            protocol: self.work.provider.provider,
            refuses_optional: self.work.refuses_optional(),
        };
        let default_model = self.work.default_model();
        let defaults =
            self.session.into_defaults((default, &providers), default_model, &config.tools)?;
        if work.is_none() && matches!(config.database, Database::Private(_)) {
            bail!(
                "--no-worker needs DATABASE_URL: no worker process can reach the private database, so \
                 no run would be executed"
            );
        }
        let service = ServiceOptions {
            defaults,
            on_busy: self.on_busy,
            max_queued: self.max_queued,
            webhook_hosts: self.work.webhook_hosts()?,
            quotas: self.work.quotas.limits(),
        };
        let http = HttpOptions {
            needs_keys,
            metrics_access: metrics_access(self.auth)?,
            tokens: self.tokens.into_issuer(self.auth)?.map(Arc::new),
            keep_alive_every: KEEP_ALIVE_INTERVAL,
            timeouts: Timeouts::default(),
            max_message: usize::try_from(self.max_message_mb)? * 1_000_000,
            max_streams: usize::try_from(self.edge.max_streams)?,
            max_streams_per_key: usize::try_from(self.edge.max_streams_per_key)?,
            rate_limit: self.edge.rate_limit,
            page: self.edge.page == Page::On,
            browser_policy: self.edge.browser_policy(self.auth)?,
        };
        let forwarding = self.forwarding.into_forwarding();
        let bootstrap_key = bootstrap_key()?.filter(|_| needs_keys);
        let serve =
            Serve { bind: self.bind, service, bootstrap_key, http, forwarding, refresh_models };
        let listen = Listen::Api(Box::new(serve));
        let (metrics, database_connections) =
            (self.metrics_addr, self.connections.database_connections);
        Ok(Config { listen, metrics, database_connections, work, reload, ..config })
    }
}

impl WorkerArgs {
    /// Checks the options against each other.
    pub fn into_config(self) -> anyhow::Result<Config> {
        #[cfg(feature = "faults")]
        self.work.faults.arm();
        let work = self.work.check(&self.work.model_providers()?)?;
        let config = self.work.config(&self.database)?;
        if matches!(config.database, Database::Private(_)) {
            bail!("a worker needs the database of the processes that serve: set DATABASE_URL");
        }
        // Health checks contain no data that needs a key.
        let listen = self.bind.map_or(Listen::Nowhere, Listen::Health);
        let database_connections = self.connections.database_connections;
        let (metrics, work) = (self.metrics_addr, Some(work));
        Ok(Config { listen, metrics, database_connections, work, ..config })
    }
}

/// Returns true if requests need a key.
///
/// `--auth open` is limited to loopback addresses, so that an operator does not open the service to
/// other machines by accident.
fn needs_keys(auth: Auth, bind: SocketAddr) -> anyhow::Result<bool> {
    let is_loopback = bind.ip().is_loopback();
    match auth {
        Auth::Keys => return Ok(true),
        Auth::Open if !is_loopback => bail!(
            "{bind} is reachable from other machines, and --auth open accepts callers without a \
             key: bind a loopback address, or use --auth keys or --auth open-to-all"
        ),
        Auth::OpenToAll if !is_loopback => {
            tracing::warn!(%bind, "callers without a key are accepted at this address");
        }
        Auth::Open | Auth::OpenToAll => {}
    }
    Ok(false)
}

/// The callers that may read the metrics at the address of the API.
fn metrics_access(auth: Auth) -> anyhow::Result<MetricsAccess> {
    if auth == Auth::Open {
        return Ok(MetricsAccess::Open);
    }
    let Some(key) = secret(METRICS_KEY)? else { return Ok(MetricsAccess::Closed) };
    let length = key.chars().count();
    if length < MIN_METRICS_KEY {
        bail!("{METRICS_KEY} has {length} characters; at least {MIN_METRICS_KEY} are required");
    }
    Ok(MetricsAccess::Key(key.into()))
}

impl WorkArgs {
    /// Returns the configuration of a process that listens nowhere and executes no runs.
    fn config(&self, database: &DatabaseArgs) -> anyhow::Result<Config> {
        let options = self.tools.options()?;
        let tools = self.tools.clone().into_tools(&options)?;
        let permissions = self.permissions.clone().into_policy()?;
        let tool_servers = self.tools.servers(&permissions)?;
        let [data_dir, workspaces, state_dir] =
            database.folders(self.session_workspaces.clone())?;
        Ok(Config {
            listen: Listen::Nowhere,
            metrics: None,
            database: database.clone().into_database()?,
            database_connections: None,
            work: None,
            data_dir: Some(data_dir),
            workspaces,
            state_dir,
            tools,
            tool_servers,
            permissions,
            options,
            traces: self.traces.clone().collector()?,
            reload: ReloadableFiles {
                permission_rules: self.permissions.permission_rules.clone(),
                ..ReloadableFiles::default()
            },
        })
    }

    fn check(&self, providers: &ModelProviders) -> anyhow::Result<Work> {
        let idle = Duration::from_secs(self.model_idle_timeout);
        Ok(Work {
            model: self.model_source(idle)?,
            providers: providers.servers(idle)?,
            model_idle_timeout: idle,
            prompt_cache: self.prompt_cache.then_some(self.prompt_cache_ttl),
            slots: usize::try_from(self.slots)?,
            history_memory: self.history_memory()?,
            drain_for: Duration::from_secs(self.drain_seconds),
            webhook_hosts: self.webhook_hosts()?,
            quotas: self.quotas.limits(),
        })
    }

    /// In bytes.
    fn history_memory(&self) -> anyhow::Result<usize> {
        let Some(megabytes) = self.history_memory_mb else { return Ok(default_history_memory()) };
        Ok(usize::try_from(megabytes)? * 1_000_000)
    }

    fn webhook_hosts(&self) -> anyhow::Result<AllowedHosts> {
        let hosts = self.webhook_hosts.iter().flatten().map(String::as_str);
        AllowedHosts::parse(hosts).context("--webhook-hosts is not a list of hosts")
    }

    /// `None` for the other protocols, whose servers have different models.
    fn default_model(&self) -> Option<&'static str> {
        match self.provider.provider {
            _ if self.offline => Some(SIMULATOR),
            Provider::Anthropic => Some(DEFAULT_MODEL),
            Provider::OpenAi | Provider::OpenAiResponses => None,
        }
    }

    fn model_source(&self, idle_timeout: Duration) -> anyhow::Result<ModelSource> {
        if self.script.is_some() && !self.offline {
            bail!("--script needs --offline, because it is a script of the simulator");
        }
        if !self.offline {
            return Ok(ModelSource::Server(self.server(idle_timeout)?));
        }
        let name = self.provider.key_name();
        if secret(name)?.is_some() {
            tracing::warn!("{name} is set but not used, because --offline selects the simulator");
        }
        let provider = self.provider.provider;
        Ok(ModelSource::Simulator { script: self.script.clone(), provider })
    }
}
