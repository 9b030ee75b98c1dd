//! The command line: one file a command.

mod agents;
mod budget;
mod catalog;
mod chat;
mod client;
mod completions;
mod configuration;
mod database;
mod doctor;
mod healthcheck;
mod json;
mod keys;
mod local;
mod migrate;
mod openapi;
mod output;
mod pdf;
mod run;
mod sandbox;
mod serve;
mod sessions;
mod signals;
mod simulator;
mod status;
mod table;
mod talk;
mod terminal;
mod tools;
mod verify;
mod version;
mod worker;

use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::config::{LogArgs, Secrets};
use crate::telemetry::{self, Form, Redactor};
use crate::tools::{pdf as pdf_tool, sandbox as sandbox_tool};
use signals::{shutdown_signal, until_told_twice};

/// Time for what still works on a thread of its own, once the command has ended.
const THREADS_TIMEOUT: Duration = Duration::from_secs(1);

/// A tool-using agent behind one HTTP endpoint
#[derive(Debug, Parser)]
#[command(name = "twostep", version)]
pub struct Cli {
    #[command(flatten)]
    log: LogArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Say one thing to the agent, and print its answer
    Run(Box<run::Command>),
    /// Talk to the agent, a line at a time
    Chat(Box<chat::Command>),
    /// List, show, stop, delete and rename sessions
    Sessions(sessions::Command),
    /// List the agents that sessions can be made as, and print what they say
    Agents(agents::Command),
    /// List the tools, and print what they take
    Tools(tools::Command),
    /// Serve the API and work on runs
    Serve(Box<serve::Command>),
    /// Work on runs that other processes accept
    Worker(Box<worker::Command>),
    /// Bring the database's schema up to this version
    Migrate(migrate::Command),
    /// Check that all that is stored is sound, whether or not a service runs; the status is 0 if
    /// nothing is wrong, 1 if something is, 2 if it could not be found out
    Verify(verify::Command),
    /// Show, give or take away what may be spent on requests to the model
    Budget(budget::Command),
    /// Make, list, take back and replace keys of the API
    Keys(keys::Command),
    /// Import, list and remove the courses that agents look things up in
    Catalog(catalog::Command),
    /// Print the OpenAPI document, or compare it with a file
    Openapi(openapi::Command),
    /// Serve a scripted stand-in for the Messages API and Chat Completions
    Simulator(simulator::Command),
    /// Ask a running service whether it can serve; for containers
    Healthcheck(healthcheck::Command),
    /// Look at what this machine gives, or at what stands before a service; the status is 0 if it
    /// is good
    Doctor(Box<doctor::Command>),
    /// Print or check what `serve` would be given
    Config(configuration::Command),
    /// Print the completions of a shell
    Completions(completions::Command),
    /// Print the version
    Version(version::Command),
    #[command(name = sandbox_tool::COMMAND, hide = true)]
    Sandbox(sandbox::Command),
    #[command(name = pdf_tool::COMMAND, hide = true)]
    Pdf(pdf::Command),
}

/// Runs the command that the command line names, and says on stderr why it failed if it did.
pub fn run() -> ExitCode {
    let mut command = Cli::command();
    let matches = command.get_matches_mut();
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => error.format(&mut command).exit(),
    };
    // Without threads, and without anything that a command or a document must not come near.
    if let Command::Sandbox(command) = &cli.command {
        return command.run();
    }
    if let Command::Pdf(command) = &cli.command {
        return command.run();
    }
    let secrets = Secrets::given(&command, &matches);
    cli.run(&secrets).unwrap_or_else(|error| {
        let why = Redactor::new(secrets.iter(), Form::Text)
            .map(|redactor| redactor.redact_text(&format!("{error:#}")));
        output::complain(&format!("twostep: {}", why.unwrap_or_else(|broken| broken.to_string())));
        status::of(&error)
    })
}

impl Cli {
    fn run(self, secrets: &Secrets) -> anyhow::Result<ExitCode> {
        telemetry::init(&self.command.log(self.log), secrets)?;
        // One TLS provider for the whole process; a second call would be a second command.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let result = runtime.block_on(async {
            match self.command {
                Command::Run(command) => return until_told_twice(command.run()).await,
                Command::Chat(command) => return command.run().await,
                Command::Sessions(command) => command.run().await?,
                Command::Agents(command) => command.run().await?,
                Command::Tools(command) => command.run().await?,
                Command::Serve(command) => until_told_twice(Box::pin(command.run())).await?,
                Command::Worker(command) => until_told_twice(Box::pin(command.run())).await?,
                Command::Migrate(command) => command.run().await?,
                // The only one whose answer can be no.
                Command::Verify(command) => return Ok(command.run().await),
                Command::Budget(command) => command.run().await?,
                Command::Keys(command) => command.run().await?,
                Command::Catalog(command) => command.run().await?,
                Command::Openapi(command) => command.run()?,
                Command::Simulator(command) => command.run().await?,
                Command::Healthcheck(command) => command.run().await?,
                Command::Doctor(command) => return command.run().await,
                Command::Config(command) => command.run()?,
                Command::Completions(command) => command.run()?,
                Command::Version(command) => command.run(),
                Command::Sandbox(command) => return Ok(command.run()),
                Command::Pdf(command) => return Ok(command.run()),
            }
            Ok(ExitCode::SUCCESS)
        });
        runtime.shutdown_timeout(THREADS_TIMEOUT);
        result
    }
}

impl Command {
    /// Who talks to the agent need not read how a service of their own is doing.
    fn log(&self, log: LogArgs) -> LogArgs {
        match self {
            Self::Run(_) | Self::Chat(_) => log.quiet(),
            Self::Sessions(_)
            | Self::Agents(_)
            | Self::Tools(_)
            | Self::Serve(_)
            | Self::Worker(_)
            | Self::Migrate(_)
            | Self::Verify(_)
            | Self::Budget(_)
            | Self::Keys(_)
            | Self::Catalog(_)
            | Self::Openapi(_)
            | Self::Simulator(_)
            | Self::Healthcheck(_)
            | Self::Doctor(_)
            | Self::Config(_)
            | Self::Completions(_)
            | Self::Version(_)
            | Self::Sandbox(_)
            | Self::Pdf(_) => log,
        }
    }
}
