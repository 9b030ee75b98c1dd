//! Command-line options and the environment variables that set them.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};
use reqwest::Url;

use super::edge::EdgeArgs;
use super::forwarding::ForwardingArgs;
use super::models::ModelArgs;
use super::permissions::PermissionArgs;
use super::provider::{ANTHROPIC_URL, ProviderArgs};
use super::quotas::QuotaArgs;
use super::tokens::TokenArgs;
use super::tools::ToolArgs;
use super::traces::TraceArgs;
use crate::domain::limits::Limits;
use crate::domain::prompt_cache::CacheTtl;
use crate::domain::run_options::OnBusy;
use crate::domain::session::InterruptedReplies;

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text for terminals.
    Text,
    /// One JSON object per line.
    Json,
}

/// The callers that the service accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Auth {
    /// Callers with a key made by `twostep keys`, or with a token of `--token-issuer`
    Keys,
    /// Every caller on this machine, as the default tenant; `--bind` must be a loopback address
    Open,
    /// Every caller that reaches the address, as the default tenant: for a service behind a gateway
    /// that authenticates callers itself
    OpenToAll,
}

/// Options that every command accepts.
#[derive(Debug, Clone, Args)]
pub struct LogArgs {
    /// Format of log lines
    #[arg(long, env = "TWOSTEP_LOG_FORMAT", value_enum, default_value = "text", global = true)]
    pub log_format: LogFormat,
    /// Log filter: a level, then levels of targets, such as `info,twostep=debug`
    #[arg(
        long,
        env = "TWOSTEP_LOG",
        default_value = DEFAULT_LOG,
        global = true
    )]
    pub log: String,
}

/// The default log filter. It drops the database's notice for each migration that is already
/// applied, and the lines of the MCP library, whose content a tool server controls.
const DEFAULT_LOG: &str = "info,sqlx::postgres::notice=warn,rmcp=off";

impl LogArgs {
    /// Returns these options with the level `warn`, unless the user chose a filter.
    #[must_use]
    pub fn quiet(self) -> Self {
        if self.log == DEFAULT_LOG { Self { log: "warn".to_owned(), ..self } } else { self }
    }
}

/// The location of the database.
#[derive(Debug, Clone, Args)]
pub struct DatabaseArgs {
    /// URL of a Postgres server, version 15 to 18; `worker` requires it
    /// [default: a private server, whose data is in the data folder]
    #[arg(long, global = true, env = "DATABASE_URL", hide_env_values = true)]
    pub database_url: Option<String>,
    /// Folder of the private server, the worker's identity and the session folders
    /// [default: ~/.local/share/twostep; /var/lib/twostep for root]
    #[arg(long, global = true, env = "TWOSTEP_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
    /// Folder of the programs `postgres` and `initdb` for the private server [default: searched]
    #[arg(long, global = true, env = "PG_BIN_DIR")]
    pub pg_bin_dir: Option<PathBuf>,
}

/// The use of the database by a process.
#[derive(Debug, Clone, Copy, Args)]
pub struct ConnectionArgs {
    /// Maximum number of connections to the database that this process opens [default: 28 for `serve`,
    /// 18 with `--no-worker`, 20 for `worker`; at most half of those that the server grants]
    #[arg(long, env = "TWOSTEP_DATABASE_CONNECTIONS", value_name = "NUMBER",
          value_parser = clap::value_parser!(u32).range(4..=1000))]
    pub database_connections: Option<u32>,
}

/// Options of `twostep serve`.
#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// Address to listen on: an IP address and a port
    #[arg(long, env = "TWOSTEP_BIND", default_value = "127.0.0.1:8080")]
    pub bind: SocketAddr,
    /// Separate address for `/metrics`; the main address then does not serve it [default: none]
    #[arg(long, env = "TWOSTEP_METRICS_ADDR", value_name = "ADDRESS")]
    pub metrics_addr: Option<SocketAddr>,
    /// Callers that the service accepts
    #[arg(long, env = "TWOSTEP_AUTH", value_enum, default_value = "keys")]
    pub auth: Auth,
    /// Tokens of an identity provider.
    #[command(flatten)]
    pub tokens: TokenArgs,
    /// Reverse proxies in front of the service.
    #[command(flatten)]
    pub forwarding: ForwardingArgs,
    /// Serve the API without executing runs; `twostep worker` processes on the same database execute
    /// them
    #[arg(long, env = "TWOSTEP_NO_WORKER", default_value = "false",
          default_missing_value = "true", num_args = 0..=1, action = ArgAction::Set)]
    pub no_worker: bool,
    /// Handling of a message to a busy session, if the message does not specify it
    #[arg(long, env = "TWOSTEP_ON_BUSY", value_enum, default_value = "queue")]
    pub on_busy: OnBusy,
    /// Maximum number of queued runs over all sessions; further messages are rejected with 429
    #[arg(long, env = "TWOSTEP_MAX_QUEUED", default_value_t = 1000,
          value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub max_queued: u32,
    /// Maximum size of the body of a message or of tool results, in megabytes; other bodies are
    /// limited to 4
    #[arg(long, env = "TWOSTEP_MAX_MESSAGE_MB", default_value_t = 32, value_name = "MB",
          value_parser = clap::value_parser!(u32).range(1..=32))]
    pub max_message_mb: u32,
    /// Limits for clients.
    #[command(flatten)]
    pub edge: EdgeArgs,
    /// The location of the database.
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// The use of the database.
    #[command(flatten)]
    pub connections: ConnectionArgs,
    /// Defaults for sessions.
    #[command(flatten)]
    pub session: SessionArgs,
    /// Execution of runs.
    #[command(flatten)]
    pub work: WorkArgs,
}

/// Options of `twostep worker`.
#[derive(Debug, Clone, Args)]
pub struct WorkerArgs {
    /// Address for health checks: an IP address and a port [default: none]
    #[arg(long, env = "TWOSTEP_BIND")]
    pub bind: Option<SocketAddr>,
    /// Separate address for `/metrics`; the main address then does not serve it [default: none]
    #[arg(long, env = "TWOSTEP_METRICS_ADDR", value_name = "ADDRESS")]
    pub metrics_addr: Option<SocketAddr>,
    /// The location of the database.
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// The use of the database.
    #[command(flatten)]
    pub connections: ConnectionArgs,
    /// Execution of runs.
    #[command(flatten)]
    pub work: WorkArgs,
}

/// Settings of sessions whose creation request does not specify them.
#[derive(Debug, Clone, Args)]
pub struct SessionArgs {
    /// Model of sessions that specify none; required with `--provider openai`
    /// [default: claude-sonnet-5-5]
    #[arg(long, env = "TWOSTEP_MODEL")]
    pub model: Option<String>,
    /// Maximum number of output tokens of one model request
    #[arg(long, env = "TWOSTEP_MAX_TOKENS", default_value_t = 8192,
          value_parser = clap::value_parser!(u32).range(1..=128_000))]
    pub max_tokens: u32,
    /// System prompt of sessions that specify none [default: built in]
    #[arg(long, env = "TWOSTEP_SYSTEM")]
    pub system: Option<String>,
    /// Maximum number of rounds of tool calls in a run; after that the model must answer
    #[arg(long, env = "TWOSTEP_MAX_ROUNDS", default_value_t = Limits::DEFAULT_ROUNDS,
          value_parser = clap::value_parser!(u32).range(0..=i64::from(Limits::MAX_ROUNDS)))]
    pub max_rounds: u32,
    /// Treatment of a reply during which a client stops its run, in sessions that specify none:
    /// `keep` its text in the history, or `discard` it
    #[arg(long, env = "TWOSTEP_INTERRUPTED_REPLIES", value_enum, default_value = "keep")]
    pub interrupted_replies: InterruptedReplies,
    /// Let the model make titles, with a short request after the first answer, for sessions without
    /// a title that do not specify it
    #[arg(long, env = "TWOSTEP_GENERATE_TITLES", default_value = "false",
          default_missing_value = "true", num_args = 0..=1, action = ArgAction::Set)]
    pub generate_titles: bool,
    /// Prices of models: JSON file, by model, in micro-dollars per million tokens of each kind
    #[arg(long, env = "TWOSTEP_PRICES", value_name = "FILE")]
    pub prices: Option<PathBuf>,
    /// Tools of sessions that specify none
    /// [default: `read_file`, `write_file`, `list_files`, `get_time`]
    #[arg(
        long,
        alias = "session-tools",
        env = "TWOSTEP_DEFAULT_TOOLS",
        value_delimiter = ',',
        value_name = "NAMES"
    )]
    pub default_tools: Option<Vec<String>>,
    /// Folder with agents for all tenants: `NAME.json` files, each with an optional prompt in
    /// `NAME.md` [default: only the built-in agents]
    #[arg(long, env = "TWOSTEP_AGENTS", value_name = "FOLDER")]
    pub agents: Option<PathBuf>,
    /// One workspace folder for all sessions [default: each session has a folder of its own]
    #[arg(long, alias = "workspace", env = "TWOSTEP_SHARED_WORKSPACE", value_name = "FOLDER")]
    pub shared_workspace: Option<PathBuf>,
    /// Folders that sessions may choose as workspace, with all folders below them [default: none]
    #[arg(long, env = "TWOSTEP_WORKSPACE_ROOTS", value_delimiter = ',', value_name = "FOLDERS")]
    pub workspace_roots: Option<Vec<PathBuf>>,
    /// Model features.
    #[command(flatten)]
    pub models: ModelArgs,
}

/// Options for the execution of runs.
#[derive(Debug, Clone, Args)]
pub struct WorkArgs {
    /// Use the built-in simulator instead of a model
    #[arg(long, env = "TWOSTEP_OFFLINE", default_value = "false",
          default_missing_value = "true", num_args = 0..=1, action = ArgAction::Set)]
    pub offline: bool,
    /// Script of the simulator [default: a demonstration]
    #[arg(long, env = "TWOSTEP_SIMULATOR_SCRIPT", value_name = "FILE")]
    pub script: Option<PathBuf>,
    /// The protocol of the model's server.
    #[command(flatten)]
    pub provider: ProviderArgs,
    /// Base URL of the Messages API; the key is read from `ANTHROPIC_API_KEY`
    #[arg(long, env = "ANTHROPIC_BASE_URL", default_value = ANTHROPIC_URL)]
    pub anthropic_base_url: Url,
    /// Version of the Messages API
    #[arg(long, env = "ANTHROPIC_VERSION", default_value = "2023-06-01")]
    pub anthropic_version: String,
    /// Seconds without data after which a model request is aborted; ten times as long if the server
    /// sends pings
    #[arg(long, env = "TWOSTEP_MODEL_IDLE_TIMEOUT", default_value_t = 120, value_name = "SECONDS")]
    pub model_idle_timeout: u64,
    /// Mark the unchanged prefix of model requests for the provider's prompt cache
    #[arg(long, env = "TWOSTEP_PROMPT_CACHE", default_value = "true",
          default_missing_value = "true", num_args = 0..=1, action = ArgAction::Set)]
    pub prompt_cache: bool,
    /// Lifetime of unused prompt cache entries; `1h` costs more to write
    #[arg(long, env = "TWOSTEP_PROMPT_CACHE_TTL", value_enum, default_value = "5m")]
    pub prompt_cache_ttl: CacheTtl,
    /// Maximum number of runs this process executes at once. A run that waits for the model costs
    /// memory, not CPU time
    #[arg(long, env = "TWOSTEP_SLOTS", default_value_t = 1024,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub slots: u32,
    /// Maximum size of the histories of these runs in memory, in megabytes; beyond it further runs are
    /// queued [default: a quarter of the memory of the machine or of the container]
    #[arg(long, env = "TWOSTEP_HISTORY_MEMORY_MB", value_name = "MB",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub history_memory_mb: Option<u32>,
    /// Folder that contains the workspace folders of sessions; processes that share a database must
    /// share it too [default: `workspaces` in the data folder]
    #[arg(long, alias = "workspaces", env = "TWOSTEP_SESSION_WORKSPACES", value_name = "FOLDER")]
    pub session_workspaces: Option<PathBuf>,
    /// Seconds for requests to the model and calls in progress at shutdown, 0 to 25
    #[arg(long, env = "TWOSTEP_DRAIN_SECONDS", default_value_t = 20, value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(0..=25))]
    pub drain_seconds: u64,
    /// Hosts that webhooks may use, `host` or `host:port`; `public` allows all hosts of the public
    /// internet by https; must be the same for all processes [default: none]
    #[arg(long, env = "TWOSTEP_WEBHOOK_HOSTS", value_delimiter = ',', value_name = "HOSTS")]
    pub webhook_hosts: Option<Vec<String>>,
    /// Quotas of tenants.
    #[command(flatten)]
    pub quotas: QuotaArgs,
    /// Tools.
    #[command(flatten)]
    pub tools: ToolArgs,
    /// Permissions of tool calls.
    #[command(flatten)]
    pub permissions: PermissionArgs,
    /// Export of traces.
    #[command(flatten)]
    pub traces: TraceArgs,
    /// Fault injection.
    #[cfg(feature = "faults")]
    #[command(flatten)]
    pub faults: crate::faults::FaultArgs,
}
