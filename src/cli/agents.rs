//! `twostep agents`.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::client::{Client, ServerArgs};
use super::json::{items, non_empty_string, string};
use super::sessions::print_json;
use super::terminal::{one_line, safe};
use super::{output, table};
use crate::domain::agent::AgentChoice;

const EXAMPLES: &str = "\
Examples:
  twostep agents list
  twostep agents show coder
  twostep agents show librarian@3 --json | jq .profile
  twostep run --agent researcher 'Who wrote the first compiler?'";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
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
    /// List the agents that new sessions can use
    List,
    /// Show an agent and the settings of its sessions
    Show {
        /// Name of the agent: `coder` for the newest version, or `coder@3`
        name: AgentChoice,
    },
}

impl Command {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let client = Client::new(&self.server)?;
        match self.action {
            Action::List => list(&client, self.json).await,
            Action::Show { name } => show(&client, &name, self.json).await,
        }
    }
}

async fn list(client: &Client, json: bool) -> anyhow::Result<()> {
    let (agents, _) = client.list(&["agents"], &[], usize::MAX).await?;
    if json {
        agents.iter().for_each(print_json);
        return Ok(());
    }
    let row = |agent: &Value| {
        let (name, source) = (string(agent, "name"), string(agent, "source"));
        [name, &version(agent), source, string(agent, "description")].map(str::to_owned)
    };
    let rows: Vec<_> = agents.iter().map(row).collect();
    table::show(["NAME", "VERSION", "SOURCE", "DESCRIPTION"], &rows);
    Ok(())
}

async fn show(client: &Client, name: &AgentChoice, json: bool) -> anyhow::Result<()> {
    let version_asked = name.version.map(|version| version.to_string());
    let query: Vec<(&str, &str)> =
        version_asked.iter().map(|version| ("version", version.as_str())).collect();
    let agent = client.get_with(&["agents", name.name.as_str()], &query).send().await?;
    if json {
        print_json(&agent);
        return Ok(());
    }
    let source = string(&agent, "source");
    output::print_line(&one_line(&format!("{} version {} ({source})", name.name, version(&agent))));
    if let Some(description) = non_empty_string(&agent, "description") {
        output::print_line(&one_line(description));
    }
    let left_out: Vec<&str> =
        items(&agent, "tools_left_out").iter().filter_map(Value::as_str).collect();
    if !left_out.is_empty() {
        output::print_line(&one_line(&format!(
            "tools not available here: {}",
            left_out.join(", ")
        )));
    }
    let mut profile = agent.get("profile").cloned().unwrap_or_default();
    // The prompt is printed as text with its line breaks, not as a JSON string.
    let prompt = non_empty_string(&profile, "system").map(str::to_owned);
    if let Some(members) = profile.as_object_mut() {
        members.remove("description");
        if prompt.is_some() {
            members.remove("system");
        }
    }
    if profile != json!({}) {
        let text = serde_json::to_string_pretty(&profile)?;
        output::print_json(&format!("\n{text}"));
    }
    if let Some(prompt) = prompt {
        output::print_line(&format!("\n{}", safe(&prompt)));
    }
    Ok(())
}

fn version(agent: &Value) -> String {
    agent.get("version").map(Value::to_string).unwrap_or_default()
}
