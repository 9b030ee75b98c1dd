//! `twostep config`.

use clap::{Args, CommandFactory as _, Subcommand};

use super::{Cli, output, table};
use crate::app::{LiveAnswer, check, check_live};
use crate::config::{
    EffectiveOption, EffectiveOptions, Listen, accept_old_variables, unknown_variables,
};

const EXAMPLES: &str = "\
Examples:
  twostep config print
  twostep config print --bind 0.0.0.0:8080 --json
  twostep config check --permission-rules rules.json && systemctl restart twostep
  twostep config check --live --model claude-haiku-5-5";

/// Both commands take the options of `twostep serve` and start nothing
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Command {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print the effective options of `serve`: each option, its value and the origin of the value
    Print(Box<Print>),
    /// Check the options and files that `serve` reads at startup; the exit status is 0 if they are
    /// valid
    Check(Box<Check>),
}

#[derive(Debug, Args)]
struct Print {
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    options: EffectiveOptions,
}

#[derive(Debug, Args)]
struct Check {
    /// Also ask one model of each provider for one word, which costs a few tokens: a key, a URL or a model that is
    /// wrong is reported with the message of the provider and what to change, and the exit status is 1
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    options: EffectiveOptions,
}

impl Command {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        for name in unknown_variables(&accept_old_variables(Cli::command())) {
            output::print_error(&format!("twostep: {name} is set, but no option reads it"));
        }
        match self.action {
            Action::Print(command) => command.run(),
            Action::Check(command) => command.run().await,
        }
    }
}

impl Print {
    fn run(self) -> anyhow::Result<()> {
        if self.json {
            for option in &self.options.options {
                output::print_json(&serde_json::to_string(option)?);
            }
            return Ok(());
        }
        let rows: Vec<_> = self.options.options.iter().map(row).collect();
        table::show(["OPTION", "VARIABLE", "FROM", "VALUE"], &rows);
        Ok(())
    }
}

fn row(option: &EffectiveOption) -> [String; 4] {
    let EffectiveOption { option, variable, value, from } = option;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    [text(option), text(variable), from.as_str().to_owned(), text(value)]
}

impl Check {
    async fn run(self) -> anyhow::Result<()> {
        let config = self.options.args.into_config()?;
        let live = self.live.then(|| config.clone());
        let bind = match &config.listen {
            Listen::Api(serve) => Some(serve.bind),
            Listen::Health(_) | Listen::Nowhere => None,
        };
        check(config).await?;
        if let Some(bind) = bind {
            output::print_line(&format!("the configuration is valid; the address is {bind}"));
        }
        if let Some(config) = live {
            report(check_live(&config).await?)?;
        }
        Ok(())
    }
}

/// Prints the answers of all providers. Fails if one of them has not answered.
fn report(answers: Vec<anyhow::Result<LiveAnswer>>) -> anyhow::Result<()> {
    let mut failed = 0;
    for answer in answers {
        match answer {
            Ok(answer) => output::print_line(&sentence(&answer)),
            Err(error) => {
                failed += 1;
                output::print_error(&format!("twostep: {error:#}"));
            }
        }
    }
    anyhow::ensure!(failed == 0, "providers that do not answer: {failed}");
    Ok(())
}

fn sentence(answer: &LiveAnswer) -> String {
    let LiveAnswer { server, provider, model, usage, took } = answer;
    format!(
        "{server} ({}) answered for the model {model} in {} ms with {} input and {} output tokens",
        provider.as_str(),
        took.as_millis(),
        usage.prompt(),
        usage.output_tokens
    )
}
