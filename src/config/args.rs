//! The command line, and the environment variables that say the same.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};
use reqwest::Url;

use super::{
    ANTHROPIC_URL, EdgeArgs, ForwardingArgs, ModelArgs, PermissionArgs, ProviderArgs, TokenArgs,
    ToolArgs, TraceArgs,
};
use crate::domain::prompt_cache::CacheTtl;
use crate::domain::run::{Limits, OnBusy};

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Who is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Auth {
    /// Who has a key that `twostep keys` made, or a token of `--token-issuer`
    Keys,
    /// Everybody on this machine, as the default tenant; the address must be a loopback one
    Open,
    /// Everybody who reaches the address, as the default tenant: for a service behind something
    /// that asks for a key itself
    OpenToAll,
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
pub struct LogArgs {
    /// How log lines are written
    #[arg(long, env = "TWOSTEP_LOG_FORMAT", value_enum, default_value = "text", global = true)]
    pub log_format: LogFormat,
    /// What is logged, such as `info` or `twostep=debug,sqlx=warn`
    #[arg(
        long,
        env = "TWOSTEP_LOG",
        default_value = USUAL_LOG,
        global = true
    )]
    pub log: String,
}

/// The database has a notice for every migration that is there already, and a tool server may make
/// the library that speaks to it say anything.
const USUAL_LOG: &str = "info,sqlx::postgres::notice=warn,rmcp=off";

impl LogArgs {
    /// Only what is wrong, unless somebody wants to know more.
    #[must_use]
    pub fn quiet(self) -> Self {
        if self.log == USUAL_LOG { Self { log: "warn".to_owned(), ..self } } else { self }
    }
}

/// Where the database is.
#[derive(Debug, Clone, Args)]
pub struct DatabaseArgs {
    /// A Postgres server, 15 to 18; where it is not named, `serve` runs a private one on the
    /// installed binaries
    #[arg(long, global = true, env = "DATABASE_URL", hide_env_values = true)]
    pub database_url: Option<String>,
    /// Where the private server keeps its data, and sessions their folders
    /// [default: ~/.local/share/twostep, for root /var/lib/twostep]
    #[arg(long, global = true, env = "TWOSTEP_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
    /// The folder of the `postgres` and `initdb` programs
    #[arg(long, global = true, env = "PG_BIN_DIR")]
    pub pg_bin_dir: Option<PathBuf>,
}

/// Options of `twostep serve`.
#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// The address to listen on, an IP and a port
    #[arg(long, env = "TWOSTEP_BIND", default_value = "127.0.0.1:8080")]
    pub bind: SocketAddr,
    /// An address for `/metrics` alone, which the other then does not have [default: none]
    #[arg(long, env = "TWOSTEP_METRICS_ADDR", value_name = "ADDRESS")]
    pub metrics_addr: Option<SocketAddr>,
    /// Who is let in
    #[arg(long, env = "TWOSTEP_AUTH", value_enum, default_value = "keys")]
    pub auth: Auth,
    /// Whose tokens are good where keys are.
    #[command(flatten)]
    pub tokens: TokenArgs,
    /// What stands before the service.
    #[command(flatten)]
    pub forwarding: ForwardingArgs,
    /// Only accept and tell; runs are for `twostep worker` processes on the same database
    #[arg(long, env = "TWOSTEP_NO_WORKER", default_value = "false",
          default_missing_value = "true", num_args = 0..=1, action = ArgAction::Set)]
    pub no_worker: bool,
    /// What a message to a busy session means, when it does not say so itself
    #[arg(long, env = "TWOSTEP_ON_BUSY", value_enum, default_value = "queue")]
    pub on_busy: OnBusy,
    /// Runs that may wait, over all sessions; more messages are refused
    #[arg(long, env = "TWOSTEP_MAX_QUEUED", default_value_t = 1000,
          value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub max_queued: u32,
    /// Megabytes of the body of one message or of tool results; other bodies have 4 at most
    #[arg(long, env = "TWOSTEP_MAX_MESSAGE_MB", default_value_t = 32, value_name = "MB",
          value_parser = clap::value_parser!(u32).range(1..=32))]
    pub max_message_mb: u32,
    /// What clients may hold and do.
    #[command(flatten)]
    pub edge: EdgeArgs,
    /// Where the database is.
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// What sessions pin.
    #[command(flatten)]
    pub session: SessionArgs,
    /// How runs are worked on.
    #[command(flatten)]
    pub work: WorkArgs,
}

/// Options of `twostep worker`.
#[derive(Debug, Clone, Args)]
pub struct WorkerArgs {
    /// An address for health checks [default: none]
    #[arg(long, env = "TWOSTEP_BIND")]
    pub bind: Option<SocketAddr>,
    /// An address for `/metrics` alone, which the other then does not have [default: none]
    #[arg(long, env = "TWOSTEP_METRICS_ADDR", value_name = "ADDRESS")]
    pub metrics_addr: Option<SocketAddr>,
    /// Where the database is.
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// How runs are worked on.
    #[command(flatten)]
    pub work: WorkArgs,
}

/// What sessions pin when their creation names nothing else.
#[derive(Debug, Clone, Args)]
pub struct SessionArgs {
    /// The model of sessions that name none; to be named for Chat Completions
    /// [default: claude-sonnet-5-5]
    #[arg(long, env = "TWOSTEP_MODEL")]
    pub model: Option<String>,
    /// The output budget of one request to the model
    #[arg(long, env = "TWOSTEP_MAX_TOKENS", default_value_t = 8192,
          value_parser = clap::value_parser!(u32).range(1..=128_000))]
    pub max_tokens: u32,
    /// The system prompt of sessions that name none
    #[arg(long, env = "TWOSTEP_SYSTEM")]
    pub system: Option<String>,
    /// Rounds of tool calls in a run, before the model is asked for its answer
    #[arg(long, env = "TWOSTEP_MAX_ROUNDS", default_value_t = Limits::DEFAULT_ROUNDS,
          value_parser = clap::value_parser!(u32).range(0..=i64::from(Limits::MAX_ROUNDS)))]
    pub max_rounds: u32,
    /// What models cost: JSON, by model, micro-dollars for a million tokens of each kind
    #[arg(long, env = "TWOSTEP_PRICES", value_name = "FILE")]
    pub prices: Option<PathBuf>,
    /// The tools of sessions that name none
    /// [default: `read_file`, `write_file`, `list_files`, `get_time`]
    #[arg(long, env = "TWOSTEP_SESSION_TOOLS", value_delimiter = ',', value_name = "NAMES")]
    pub session_tools: Option<Vec<String>>,
    /// Agents that all tenants have: a folder of `NAME.json` files, each with its prompt in `NAME.md`
    /// if it likes [default: those of the service itself]
    #[arg(long, env = "TWOSTEP_AGENTS", value_name = "FOLDER")]
    pub agents: Option<PathBuf>,
    /// A folder that all sessions work in [default: each session has one of its own]
    #[arg(long, env = "TWOSTEP_WORKSPACE", value_name = "FOLDER")]
    pub workspace: Option<PathBuf>,
    /// Folders that sessions may choose to work in, or in one beneath them [default: none]
    #[arg(long, env = "TWOSTEP_WORKSPACE_ROOTS", value_delimiter = ',', value_name = "FOLDERS")]
    pub workspace_roots: Option<Vec<PathBuf>>,
    /// What sessions may ask of models.
    #[command(flatten)]
    pub models: ModelArgs,
}

/// How runs are worked on.
#[derive(Debug, Clone, Args)]
pub struct WorkArgs {
    /// Use the built-in simulator in place of a model
    #[arg(long, env = "TWOSTEP_OFFLINE", default_value = "false",
          default_missing_value = "true", num_args = 0..=1, action = ArgAction::Set)]
    pub offline: bool,
    /// What the simulator does; a demonstration when absent
    #[arg(long, env = "TWOSTEP_SIMULATOR_SCRIPT", value_name = "FILE")]
    pub script: Option<PathBuf>,
    /// Which protocol is spoken.
    #[command(flatten)]
    pub provider: ProviderArgs,
    /// The server of the Messages API; its key is taken from `ANTHROPIC_API_KEY`
    #[arg(long, env = "ANTHROPIC_BASE_URL", default_value = ANTHROPIC_URL)]
    pub anthropic_base_url: Url,
    /// The version of the Messages API
    #[arg(long, env = "ANTHROPIC_VERSION", default_value = "2023-06-01")]
    pub anthropic_version: String,
    /// Seconds of silence after which a request to the model is given up
    #[arg(long, env = "TWOSTEP_MODEL_IDLE_TIMEOUT", default_value_t = 120, value_name = "SECONDS")]
    pub model_idle_timeout: u64,
    /// Ask the model's side to cache the unchanging part of requests
    #[arg(long, env = "TWOSTEP_PROMPT_CACHE", default_value = "true",
          default_missing_value = "true", num_args = 0..=1, action = ArgAction::Set)]
    pub prompt_cache: bool,
    /// How long it keeps what nobody asks for; an hour costs more to write
    #[arg(long, env = "TWOSTEP_PROMPT_CACHE_TTL", value_enum, default_value = "5m")]
    pub prompt_cache_ttl: CacheTtl,
    /// Runs at a time, 1 to 1024
    #[arg(long, env = "TWOSTEP_SLOTS", default_value_t = 64,
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub slots: u16,
    /// Where sessions have their folders; processes that share a database share them as well
    /// [default: a folder in the data folder]
    #[arg(long, env = "TWOSTEP_WORKSPACES", value_name = "FOLDER")]
    pub workspaces: Option<PathBuf>,
    /// Seconds that requests and tool calls in flight may take to end when the service stops
    #[arg(long, env = "TWOSTEP_DRAIN_SECONDS", default_value_t = 20, value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(0..=25))]
    pub drain_seconds: u64,
    /// Hosts that webhooks may be at, `host` or `host:port`; `public` for all of the public network,
    /// by https; for all processes the same [default: none]
    #[arg(long, env = "TWOSTEP_WEBHOOK_HOSTS", value_delimiter = ',', value_name = "HOSTS")]
    pub webhook_hosts: Option<Vec<String>>,
    /// The tools.
    #[command(flatten)]
    pub tools: ToolArgs,
    /// Who decides on calls.
    #[command(flatten)]
    pub permissions: PermissionArgs,
    /// Where traces are sent.
    #[command(flatten)]
    pub traces: TraceArgs,
    /// Faults on purpose.
    #[cfg(feature = "faults")]
    #[command(flatten)]
    pub faults: crate::faults::FaultArgs,
}
