//! `twostep tools`.

use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde_json::Value;

use super::client::{Client, ServerArgs};
use super::json::{items, string};
use super::sessions::print_json;
use super::{output, table};

#[derive(Debug, Args)]
pub(super) struct Command {
    #[command(flatten)]
    server: ServerArgs,
    /// Print JSON, one object per line
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the tools that sessions may use
    List,
    /// Print the JSON Schema of a tool's input
    Schema {
        /// Name of the tool
        name: String,
    },
}

impl Command {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let client = Client::new(&self.server)?;
        let catalog = client.get(&["tools"]).send().await?;
        let tools = items(&catalog, "data");
        match self.action {
            Action::List if self.json => tools.iter().for_each(print_json),
            Action::List => {
                let rows: Vec<_> = tools
                    .iter()
                    .map(|tool| {
                        let is_default = tool.get("default") == Some(&Value::Bool(true));
                        let default = if is_default { "yes" } else { "" };
                        let about = string(tool, "description");
                        let about = about.split_inclusive(". ").next().unwrap_or_default();
                        [string(tool, "name"), string(tool, "class"), default, about]
                            .map(str::to_owned)
                    })
                    .collect();
                table::show(["NAME", "CLASS", "DEFAULT", "DESCRIPTION"], &rows);
            }
            Action::Schema { name } => {
                let tool = tools.iter().find(|tool| string(tool, "name") == name);
                let tool = tool.with_context(|| format!("tool {name:?} does not exist"))?;
                let schema = tool.get("input_schema").unwrap_or(&Value::Null);
                let json = if self.json {
                    schema.to_string()
                } else {
                    serde_json::to_string_pretty(schema)?
                };
                output::print_json(&json);
            }
        }
        Ok(())
    }
}
