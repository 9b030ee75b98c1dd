//! `twostep serve`.

use std::net::SocketAddr;
use std::path::Path;

use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{output, shutdown_signal};
use crate::app::Application;
use crate::config::{Config, Database, Listen, ModelSource, ServeArgs, Work};

#[derive(Debug, Args)]
pub(super) struct Command {
    #[command(flatten)]
    args: ServeArgs,
}

impl Command {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let config = self.args.into_config()?;
        allow_open_files();
        let said = said_of(&config);
        // Before anything is started: a signal must stop it in order.
        let shutdown = shutdown_signal()?;
        let app = Application::build(config).await?;
        greet(&app, &said);
        app.run_until_stopped(shutdown).await
    }
}

/// A connection is an open file, and the usual limit of 1024 is meant for programs that cannot
/// count further. The hard one is the operator's word.
fn allow_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    if let Err(error) = raised {
        tracing::debug!(%error, "the limit of open files stays as it is");
    }
}

/// What the greeting says of the configuration.
pub(super) struct Said {
    pub(super) database: String,
    pub(super) model: String,
    pub(super) workspace: String,
    /// Whether requests need a key.
    needs_keys: bool,
    /// A message that has an answer here.
    wish: &'static str,
}

pub(super) fn said_of(config: &Config) -> Said {
    let database = match &config.database {
        Database::Server(options) => {
            let database = options.get_database().unwrap_or("postgres");
            format!("{database} on {}:{}", options.get_host(), options.get_port())
        }
        Database::Embedded(options) => format!("private, kept in {}", options.data_dir.display()),
    };
    let serve = match &config.listen {
        Listen::Api(serve) => Some(serve),
        Listen::Health(_) | Listen::Nowhere => None,
    };
    let needs_keys = serve.is_some_and(|serve| serve.http.needs_keys);
    let defaults = serve.map(|serve| &serve.defaults);
    let model = match config.work.as_ref().map(|Work { model, .. }| model) {
        Some(ModelSource::Simulator { .. }) => {
            "simulator: a scripted stand-in, not a language model".to_owned()
        }
        Some(ModelSource::Server(server)) => {
            // Not the whole URL, which may hold a password.
            let place = server.base_url().origin().ascii_serialization();
            defaults.map_or(place.clone(), |defaults| format!("{} at {place}", defaults.model))
        }
        None => "left to worker processes".to_owned(),
    };
    let shared = defaults.and_then(|defaults| defaults.workspace.as_ref());
    let workspace = match shared {
        Some(folder) => folder.clone(),
        None => format!("a folder for each session in {}", config.workspaces.display()),
    };
    let has_readme = |folder: &String| Path::new(folder).join("README.md").is_file();
    let wish = if shared.is_some_and(has_readme) {
        "Read README.md and explain it"
    } else {
        "Write hello to notes.txt and then read notes.txt"
    };
    Said { database, model, workspace, needs_keys, wish }
}

/// The lines for the person at the terminal.
fn greet(app: &Application, said: &Said) {
    let Some(address) = app.address() else { return };
    let url = format!("http://{}", reachable(address));
    let version = app
        .private_postgres()
        .map(|private_postgres| format!("Postgres {}, ", private_postgres.version()));
    let (access, header) = if said.needs_keys {
        ("by key: `twostep keys create NAME` makes one", " -H \"x-api-key: $KEY\"")
    } else {
        ("open: nobody is asked for a key", "")
    };
    let figures = app
        .figures_address()
        .map(|address| format!("  figures    http://{}/metrics", reachable(address)));
    let mut lines = vec![
        format!("twostep {} is ready", env!("CARGO_PKG_VERSION")),
        format!("  url        {url}"),
    ];
    lines.extend(figures);
    lines.extend([
        format!("  database   {}{}", version.unwrap_or_default(), said.database),
        format!("  model      {}", said.model),
        format!("  workspace  {}", said.workspace),
        format!("  access     {access}"),
        String::new(),
        "Try it:".to_owned(),
        format!("  S=$(curl -s -X POST {url}/v1/sessions{header} |"),
        "    grep -o 'ses_[0-9a-f]*' | head -n 1)".to_owned(),
        format!("  curl -N {url}/v1/sessions/$S/messages -H 'Accept: text/event-stream' \\"),
        format!("    -H 'Content-Type: application/json'{header} \\"),
        format!("    -d '{{\"content\":\"{}\"}}'", said.wish),
    ]);
    for line in lines {
        output::say(&line);
    }
    if app.simulator().is_some() {
        tracing::warn!("the model is the simulator: answers are scripted");
    }
}

/// An address that a client on this machine can use.
pub(super) fn reachable(address: SocketAddr) -> SocketAddr {
    if !address.ip().is_unspecified() {
        return address;
    }
    let loopback = if address.is_ipv4() { "127.0.0.1" } else { "::1" };
    loopback.parse().map_or(address, |ip| SocketAddr::new(ip, address.port()))
}
