//! The configuration of a process.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;

use super::bootstrap::BootstrapKey;
use super::traces::Collector;
use crate::domain::price::Prices;
use crate::domain::prompt_cache::CacheTtl;
use crate::domain::provider::Provider;
use crate::domain::quota::QuotaLimits;
use crate::http::{Forwarding, Options as HttpOptions};
use crate::model::{NamedServer, Server};
use crate::outbound::AllowedHosts;
use crate::service::Options as ServiceOptions;
use crate::tools::mcp::ServerSettings;
use crate::tools::policy::OperatorPolicy;
use crate::tools::{Tool, builtin};
use private_postgres::Options as PostgresOptions;

/// The database of a service.
#[derive(Debug, Clone)]
pub enum Database {
    /// A server that the operator runs.
    Server(Box<PgConnectOptions>),
    /// A private server that this process starts.
    Private(PostgresOptions),
}

/// The source of model replies.
#[derive(Debug, Clone)]
pub enum ModelSource {
    /// The simulator, in this process.
    Simulator {
        /// Its script; the demonstration if absent.
        script: Option<PathBuf>,
        /// The protocol that it speaks.
        provider: Provider,
    },
    /// A server.
    Server(Server),
}

/// The requests that a process listens for.
#[derive(Debug, Clone)]
pub enum Listen {
    /// The API.
    Api(Box<Serve>),
    /// Only health checks, at this address.
    Health(SocketAddr),
    /// No requests.
    Nowhere,
}

/// The settings of the API server.
#[derive(Debug, Clone)]
pub struct Serve {
    /// The address to listen on.
    pub bind: SocketAddr,
    /// The settings of the use cases.
    pub service: ServiceOptions,
    /// The source of the first API key, if one is configured and requests need a key.
    pub bootstrap_key: Option<BootstrapKey>,
    /// Limits and access rules of the HTTP server.
    pub http: HttpOptions,
    /// Trusted proxies and the base path.
    pub forwarding: Forwarding,
    /// True if the capabilities of models are read from the model's server.
    pub refresh_models: bool,
}

/// The complete configuration of a process.
#[derive(Debug, Clone)]
pub struct Config {
    /// The requests that it listens for.
    pub listen: Listen,
    /// The separate address of `/metrics`, if one is configured.
    pub metrics: Option<SocketAddr>,
    /// The database.
    pub database: Database,
    /// Maximum number of connections to the database; `None` for as many as the process can use, as far
    /// as the server has them.
    pub database_connections: Option<u32>,
    /// The settings for executing runs; `None` for a process that only serves the API.
    pub work: Option<Work>,
    /// The data folder, whose permissions are checked at the start. None: its owner checks them.
    pub data_dir: Option<PathBuf>,
    /// The parent of the sessions' workspace folders.
    pub workspaces: PathBuf,
    /// The folder where the process stores its worker id.
    pub state_dir: PathBuf,
    /// The tools, in the order in which the model sees them.
    pub tools: Vec<Arc<dyn Tool>>,
    /// MCP servers, which provide further tools.
    pub tool_servers: Vec<ServerSettings>,
    /// The operator's permission policy.
    pub permissions: OperatorPolicy,
    /// The dependencies of the built-in tools, checked before the service starts.
    pub options: builtin::Options,
    /// The OTLP collector, if one is configured.
    pub traces: Option<Collector>,
    /// The files that are read again on SIGHUP.
    pub reload: ReloadableFiles,
}

/// The files that a running process reads again. Absent for options that are not set.
#[derive(Debug, Clone, Default)]
pub struct ReloadableFiles {
    /// The folder of `--agents`.
    pub agents: Option<PathBuf>,
    /// The file of `--prices`.
    pub prices: Option<PathBuf>,
    /// The prices in the file of `--model-providers`, which the file of `--prices` can replace.
    pub provider_prices: Prices,
    /// The file of `--permission-rules`.
    pub permission_rules: Option<PathBuf>,
}

/// The settings for executing runs.
#[derive(Debug, Clone)]
pub struct Work {
    /// The server of the default provider.
    pub model: ModelSource,
    /// The servers of the named providers.
    pub providers: Vec<NamedServer>,
    /// Time without data after which a model request is aborted.
    pub model_idle_timeout: Duration,
    /// The lifetime of prompt cache entries; `None` if prompt caching is off.
    pub prompt_cache: Option<CacheTtl>,
    /// Maximum number of runs at once.
    pub slots: usize,
    /// Maximum size of the histories of these runs in memory, in bytes.
    pub history_memory: usize,
    /// Time that requests and calls in flight get to finish at shutdown.
    pub drain_for: Duration,
    /// Hosts that webhooks may use.
    pub webhook_hosts: AllowedHosts,
    /// Quotas of tenants that have none of their own.
    pub quotas: QuotaLimits,
}
