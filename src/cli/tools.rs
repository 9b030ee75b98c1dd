//! `twostep tools`.

use anyhow::Context as _;
use clap::{Args, Subcommand};

use super::client::{Client, ServerArgs};
use super::sessions::{print_json, word};
use super::terminal::{Terminals, safe_json};
use super::{output, table};

#[derive(Debug, Args)]
pub(super) struct Command {
    #[command(flatten)]
    server: ServerArgs,
    /// Print JSON, an object a line
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the tools that sessions may have
    List,
    /// Print the JSON Schema of a tool's input
    Schema {
        /// The tool
        name: String,
    },
}

impl Command {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let client = Client::new(&self.server)?;
        let catalogue = client.get(&["tools"]).send().await?;
        let tools = catalogue["data"].as_array().context("the service tells no tools")?;
        match self.action {
            Action::List if self.json => tools.iter().for_each(print_json),
            Action::List => {
                let rows: Vec<_> = tools
                    .iter()
                    .map(|tool| {
                        let usual = if tool["default"] == true { "yes" } else { "" };
                        let about = word(tool, "description");
                        let about = about.split_inclusive(". ").next().unwrap_or_default();
                        [word(tool, "name"), word(tool, "class"), usual.into(), about.into()]
                    })
                    .collect();
                table::show(["NAME", "CLASS", "DEFAULT", "WHAT FOR"], &rows);
            }
            Action::Schema { name } => {
                let tool = tools.iter().find(|tool| tool["name"] == *name);
                let tool = tool.with_context(|| format!("there is no tool {name:?}"))?;
                let schema = &tool["input_schema"];
                let json = if self.json {
                    schema.to_string()
                } else {
                    serde_json::to_string_pretty(schema)?
                };
                output::say(&if Terminals::look().output { safe_json(&json) } else { json.into() });
            }
        }
        Ok(())
    }
}
