//! The command line: one file per command.

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
mod open_files;
mod openapi;
mod output;
mod pdf;
mod quota;
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
use hidden_environment::{HideError, hide};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::config::{LogArgs, Secrets, accept_old_variables};
use crate::telemetry::{self, Form, Redactor};
use crate::tools::pdf as pdf_tool;
use signals::until_second_signal;

/// Time that blocking threads get to finish after the command has ended.
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
    /// Send one message to the agent and print its answer
    Run(Box<run::Command>),
    /// Chat with the agent in the terminal
    Chat(Box<chat::Command>),
    /// List, show, stop, rename and delete sessions
    Sessions(sessions::Command),
    /// List and show agents, the named settings for new sessions
    Agents(agents::Command),
    /// List the tools and print their input schemas
    Tools(tools::Command),
    /// Serve the API and execute runs
    Serve(Box<serve::Command>),
    /// Execute runs that other processes accepted
    Worker(Box<worker::Command>),
    /// Migrate the database schema to this version
    Migrate(migrate::Command),
    /// Check the invariants of stored sessions; works while a service runs. Exit status: 0 if all
    /// hold, 1 if one is violated, 2 if the check could not run
    Verify(verify::Command),
    /// Show, set and remove budgets for model requests
    Budget(budget::Command),
    /// Show, set and remove quotas of tenants: sessions, bytes, agents, webhooks
    Quota(quota::Command),
    /// Create, list, revoke and rotate API keys
    Keys(keys::Command),
    /// Import, list and remove courses of the course catalog
    Catalog(catalog::Command),
    /// Print the OpenAPI document or compare it with a file
    Openapi(openapi::Command),
    /// Serve the simulator, a scripted replacement for the Messages API and Chat Completions
    Simulator(simulator::Command),
    /// Check the readiness of a running service, for containers
    Healthcheck(healthcheck::Command),
    /// Check this machine, or the proxies in front of a service. Exit status: 0 without failures, 1
    /// with failures, 4 if the service cannot be reached
    Doctor(Box<doctor::Command>),
    /// Print or check the configuration of `serve`
    Config(configuration::Command),
    /// Print shell completions
    Completions(completions::Command),
    /// Print the version
    Version(version::Command),
    #[command(name = ::sandbox::COMMAND, hide = true)]
    Sandbox(sandbox::Command),
    #[command(name = pdf_tool::COMMAND, hide = true)]
    Pdf(pdf::Command),
}

/// Runs the command of the command line. An error is written to stderr.
pub fn run() -> ExitCode {
    // Before anything else, because the first call executes the program again.
    if let Err(error) = hide() {
        output::print_error(&format!("twostep: {error}"));
        if matches!(error, HideError::Lost(_)) {
            return ExitCode::FAILURE;
        }
    }
    let mut command = accept_old_variables(Cli::command());
    let matches = match command.try_get_matches_from_mut(std::env::args_os()) {
        Ok(matches) => matches,
        Err(error) => return refuse(&error),
    };
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => return refuse(&error.format(&mut command)),
    };
    // These run untrusted input: before threads are started and before secrets are read.
    if let Command::Sandbox(command) = &cli.command {
        return command.run();
    }
    if let Command::Pdf(command) = &cli.command {
        return command.run();
    }
    keep_other_processes_out();
    let secrets = Secrets::from_command(&command, &matches);
    cli.run(&secrets).unwrap_or_else(|error| {
        let why = Redactor::new(secrets.iter(), Form::Text)
            .map(|redactor| redactor.redact_text(&format!("{error:#}")));
        output::print_error(&format!(
            "twostep: {}",
            why.unwrap_or_else(|broken| broken.to_string())
        ));
        status::of(&error)
    })
}

/// Refuses other processes of the same user access to the memory, the open files and the variables
/// of this process. They still have it if they have the capability to trace processes, as those of
/// root have. A crash leaves no core dump, which would contain secrets.
fn keep_other_processes_out() {
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        output::print_error(&format!(
            "twostep: other processes of this user can read the memory of this process: {error}"
        ));
    }
}

/// Prints the help or the version that the command line asks for, or the problem with an argument,
/// which can be quoted.
fn refuse(error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        output::print_error(error.to_string().trim_end());
    } else {
        // A closed stdout, as with `head`, is not an error.
        let _ = error.print();
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

impl Cli {
    fn run(self, secrets: &Secrets) -> anyhow::Result<ExitCode> {
        let _log = telemetry::init(&self.command.log(self.log), secrets)?;
        // One TLS provider for the whole process. A second call fails, which is harmless.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let result = runtime.block_on(async {
            match self.command {
                Command::Run(command) => return until_second_signal(command.run()).await,
                Command::Chat(command) => return command.run().await,
                Command::Sessions(command) => command.run().await?,
                Command::Agents(command) => command.run().await?,
                Command::Tools(command) => command.run().await?,
                Command::Serve(command) => until_second_signal(Box::pin(command.run())).await?,
                Command::Worker(command) => until_second_signal(Box::pin(command.run())).await?,
                Command::Migrate(command) => command.run().await?,
                Command::Verify(command) => return Ok(command.run().await),
                Command::Budget(command) => command.run().await?,
                Command::Quota(command) => command.run().await?,
                Command::Keys(command) => command.run().await?,
                Command::Catalog(command) => command.run().await?,
                Command::Openapi(command) => command.run()?,
                Command::Simulator(command) => command.run().await?,
                Command::Healthcheck(command) => command.run().await?,
                Command::Doctor(command) => return command.run().await,
                Command::Config(command) => command.run().await?,
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
    /// Users of `run` and `chat` need no log lines of a service that runs for this command.
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
            | Self::Quota(_)
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
