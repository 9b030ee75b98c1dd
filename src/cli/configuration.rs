//! `twostep config`.

use anyhow::Context as _;
use clap::{Args, CommandFactory as _, Subcommand};

use super::terminal::{Terminals, safe_json};
use super::{Cli, output, table};
use crate::config::{Given, GivenOption, Listen, ModelSource, Work, unknown_variables};
use crate::simulator::Script;

const EXAMPLES: &str = "\
Examples:
  twostep config print
  twostep config print --bind 0.0.0.0:8080 --json
  twostep config check --permissions rules.json && systemctl restart twostep";

/// Both take the options of `twostep serve`, and start nothing
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Command {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print what `serve` would be given: every option, its value, and where that comes from
    Print(Box<Print>),
    /// Read all that `serve` would read before it starts; the status is 0 if it is good
    Check(Box<Check>),
}

#[derive(Debug, Args)]
struct Print {
    /// Print JSON, an object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    given: Given,
}

#[derive(Debug, Args)]
struct Check {
    #[command(flatten)]
    given: Given,
}

impl Command {
    pub(super) fn run(self) -> anyhow::Result<()> {
        for name in unknown_variables(&Cli::command()) {
            output::complain(&format!("twostep: {name} is set, and no option reads it"));
        }
        match self.action {
            Action::Print(command) => command.run(),
            Action::Check(command) => command.run(),
        }
    }
}

impl Print {
    fn run(self) -> anyhow::Result<()> {
        if self.json {
            let is_terminal = Terminals::look().output;
            for option in &self.given.options {
                let json = serde_json::to_string(option)?;
                output::say(&if is_terminal { safe_json(&json) } else { json.into() });
            }
            return Ok(());
        }
        let rows: Vec<_> = self.given.options.iter().map(row).collect();
        table::show(["OPTION", "VARIABLE", "FROM", "VALUE"], &rows);
        Ok(())
    }
}

fn row(given: &GivenOption) -> [String; 4] {
    let GivenOption { option, variable, value, from } = given;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    [text(option), text(variable), from.as_str().to_owned(), text(value)]
}

impl Check {
    fn run(self) -> anyhow::Result<()> {
        let config = self.given.args.into_config()?;
        let model = config.work.as_ref().map(|Work { model, .. }| model);
        if let Some(ModelSource::Simulator { script: Some(path), .. }) = model {
            Script::from_file(path)
                .with_context(|| format!("the script {} cannot be used", path.display()))?;
        }
        if let Listen::Api(serve) = &config.listen {
            output::say(&format!("the configuration is good; the address is {}", serve.bind));
        }
        Ok(())
    }
}
