//! `twostep serve`.

use std::net::SocketAddr;
use std::path::Path;

use clap::Args;

use super::signals::{Hangups, shutdown_signal};
use super::{open_files, output};
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
        open_files::raise_limit(&config);
        let summary = summarize(&config);
        // Before anything is started, so that a signal always shuts down gracefully.
        let (shutdown, hangups) = (shutdown_signal()?, Hangups::new()?);
        let app = Application::build_until(config, &shutdown).await?;
        hangups.reload(app.reloader(), shutdown.clone());
        print_greeting(&app, &summary);
        app.run_until_stopped(shutdown).await
    }
}

/// The configuration as the greeting shows it.
pub(super) struct Summary {
    pub(super) database: String,
    pub(super) model: String,
    pub(super) workspace: String,
    /// True if requests need a key.
    needs_keys: bool,
    /// True if the process serves the page.
    has_page: bool,
    /// A message that works with this configuration.
    example: &'static str,
}

pub(super) fn summarize(config: &Config) -> Summary {
    let database = match &config.database {
        Database::Server(options) => {
            let database = options.get_database().unwrap_or("postgres");
            format!("{database} on {}:{}", options.get_host(), options.get_port())
        }
        Database::Private(options) => {
            format!("private server, data in {}", options.data_dir.display())
        }
    };
    let serve = match &config.listen {
        Listen::Api(serve) => Some(serve),
        Listen::Health(_) | Listen::Nowhere => None,
    };
    let needs_keys = serve.is_some_and(|serve| serve.http.needs_keys);
    let has_page = serve.is_some_and(|serve| serve.http.page);
    let defaults = serve.map(|serve| &serve.service.defaults);
    let model = match config.work.as_ref().map(|Work { model, .. }| model) {
        Some(ModelSource::Simulator { .. }) => {
            "simulator: scripted answers, not a language model".to_owned()
        }
        Some(ModelSource::Server(server)) => {
            // Only the origin, because the URL may contain a password.
            let origin = server.base_url().origin().ascii_serialization();
            defaults.map_or(origin.clone(), |defaults| format!("{} at {origin}", defaults.model))
        }
        None => "used by worker processes only".to_owned(),
    };
    let shared = defaults.and_then(|defaults| defaults.workspace.as_ref());
    let workspace = match shared {
        Some(folder) => folder.clone(),
        None => format!("one folder per session in {}", config.workspaces.display()),
    };
    let has_readme = |folder: &String| Path::new(folder).join("README.md").is_file();
    let example = if shared.is_some_and(has_readme) {
        "Read README.md and explain it"
    } else {
        "Write hello to notes.txt and then read notes.txt"
    };
    Summary { database, model, workspace, needs_keys, has_page, example }
}

/// Prints the address, the configuration and an example.
fn print_greeting(app: &Application, summary: &Summary) {
    let Some(address) = app.address() else { return };
    let url = format!("http://{}", reachable(address));
    let version = app
        .private_postgres()
        .map(|private_postgres| format!("Postgres {}, ", private_postgres.version()));
    let (access, header) = if summary.needs_keys {
        ("API keys: create one with `twostep keys create NAME`", " -H \"x-api-key: $KEY\"")
    } else {
        ("open: no key required", "")
    };
    let metrics = app
        .metrics_address()
        .map(|address| format!("  metrics    http://{}/metrics", reachable(address)));
    let mut lines = vec![
        format!("twostep {} is ready", env!("CARGO_PKG_VERSION")),
        format!("  url        {url}"),
    ];
    lines.extend(summary.has_page.then(|| format!("  page       {url}/app/")));
    lines.extend(metrics);
    lines.extend([
        format!("  database   {}{}", version.unwrap_or_default(), summary.database),
        format!("  model      {}", summary.model),
        format!("  workspace  {}", summary.workspace),
        format!("  access     {access}"),
    ]);
    if let Some(key) = app.first_key() {
        lines.push(format!("  first key  {} (not shown again)", key.reveal()));
    }
    lines.extend([
        String::new(),
        "Try it:".to_owned(),
        format!("  S=$(curl -s -X POST {url}/v1/sessions{header} |"),
        "    grep -o 'ses_[0-9a-f]*' | head -n 1)".to_owned(),
        format!("  curl -N {url}/v1/sessions/$S/messages -H 'Accept: text/event-stream' \\"),
        format!("    -H 'Content-Type: application/json'{header} \\"),
        format!("    -d '{{\"content\":\"{}\"}}'", summary.example),
    ]);
    for line in lines {
        output::print_line(&line);
    }
    if app.simulator().is_some() {
        tracing::warn!("the simulator replaces the model: answers are scripted");
    }
}

/// Replaces an unspecified address by the loopback address, for clients on this machine.
pub(super) fn reachable(address: SocketAddr) -> SocketAddr {
    if !address.ip().is_unspecified() {
        return address;
    }
    let loopback = if address.is_ipv4() { "127.0.0.1" } else { "::1" };
    loopback.parse().map_or(address, |ip| SocketAddr::new(ip, address.port()))
}
