//! `twostep sessions`.

mod show;

use std::io::stdin;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};

use super::client::{Client, ServerArgs};
use super::json::{items, non_empty_string, string};
use super::status::UsageError;
use super::terminal::{Terminals, one_line};
use super::{output, table};
use crate::domain::ids::SessionId;

const EXAMPLES: &str = "\
Examples:
  twostep sessions list --limit 5
  twostep sessions show ses_01…
  twostep sessions rename ses_01… 'The broken build'
  twostep sessions list --json | jq -r 'select(.status == \"idle\") | .id' |
    xargs twostep sessions rm --yes";

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
    /// List sessions, newest first
    List {
        /// Maximum number of sessions
        #[arg(long, default_value_t = 20, value_name = "NUMBER",
              value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
    },
    /// Show a session and its messages
    Show {
        /// Id of the session
        id: SessionId,
    },
    /// Cancel the current run and the queued runs of a session
    Cancel {
        /// Id of the session
        id: SessionId,
    },
    /// Delete sessions with all their data
    Rm {
        /// Ids of the sessions
        #[arg(required = true)]
        ids: Vec<SessionId>,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
    /// Change the title of a session
    Rename {
        /// Id of the session
        id: SessionId,
        /// New title
        title: String,
    },
}

impl Command {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let client = Client::new(&self.server)?;
        match self.action {
            Action::List { limit } => list(&client, limit, self.json).await,
            Action::Show { id } => show::show(&client, &id.to_string(), self.json).await,
            Action::Cancel { id } => cancel(&client, &id.to_string(), self.json).await,
            Action::Rm { ids, yes } => remove(&client, &ids, yes, self.json).await,
            Action::Rename { id, title } => {
                let call = client.call(Method::PATCH, &["sessions", &id.to_string()]);
                let session = call.json(&json!({ "title": title })).send().await?;
                print(&[session], self.json);
                Ok(())
            }
        }
    }
}

async fn list(client: &Client, limit: u32, json: bool) -> anyhow::Result<()> {
    let (sessions, has_more) = client.list(&["sessions"], &[], usize::try_from(limit)?).await?;
    if sessions.is_empty() {
        output::print_error("no sessions");
        return Ok(());
    }
    print(&sessions, json);
    if has_more {
        output::print_error("More sessions exist: use a larger --limit.");
    }
    Ok(())
}

async fn cancel(client: &Client, id: &str, json: bool) -> anyhow::Result<()> {
    let runs = client.post(&["sessions", id, "cancel"]).send().await?;
    let runs = items(&runs, "data");
    if runs.is_empty() {
        output::print_error("no run is active");
    } else if json {
        runs.iter().for_each(print_json);
    } else {
        let rows: Vec<_> = runs
            .iter()
            .map(|run| ["id", "status"].map(|key| string(run, key).to_owned()))
            .collect();
        table::show(["RUN", "STATUS"], &rows);
    }
    Ok(())
}

/// Deletes the sessions one after the other, each after a confirmation.
async fn remove(client: &Client, ids: &[SessionId], yes: bool, json: bool) -> anyhow::Result<()> {
    let terminals = Terminals::detect();
    if !(yes || terminals.input && terminals.messages) {
        let why = "stdin is not a terminal, so deletion cannot be confirmed: use --yes";
        return Err(UsageError(why.to_owned()).into());
    }
    for id in ids {
        let id = id.to_string();
        if !yes {
            let session = client.get(&["sessions", &id]).send().await?;
            let title = one_line(non_empty_string(&session, "title").unwrap_or("no title"));
            output::print_prompt(&format!("Delete {id} ({title}) with all its messages? [y/N] "));
            let mut answer = String::new();
            stdin().read_line(&mut answer).context("stdin cannot be read")?;
            if !matches!(&*answer.trim().to_lowercase(), "y" | "yes") {
                output::print_error("Not deleted.");
                continue;
            }
        }
        client.call(Method::DELETE, &["sessions", &id]).send().await?;
        if json {
            print_json(&json!({ "id": id, "deleted": true }));
        } else {
            output::print_line(&format!("{id} deleted"));
        }
    }
    Ok(())
}

fn print(sessions: &[Value], json: bool) {
    if json {
        sessions.iter().for_each(print_json);
        return;
    }
    let row = |session: &Value| {
        let updated = time(string(session, "updated_at"));
        [string(session, "id"), status(session), &updated, string(session, "title")]
            .map(str::to_owned)
    };
    let rows: Vec<_> = sessions.iter().map(row).collect();
    table::show(["ID", "STATUS", "UPDATED (UTC)", "TITLE"], &rows);
}

/// The status of a session in one word. The service reports `idle` for a session whose run waits
/// for an action; users see `waiting`.
fn status(session: &Value) -> &str {
    let stopped_for = session.get("stop_reason").map_or("", |reason| string(reason, "type"));
    match string(session, "status") {
        "idle" if stopped_for == "requires_action" => "waiting",
        status => status,
    }
}

/// Formats a timestamp of the API, in UTC.
fn time(stamp: &str) -> String {
    stamp.split('.').next().unwrap_or_default().trim_end_matches('Z').replace('T', " ")
}

/// Prints a JSON value on one line.
pub(super) fn print_json(value: &Value) {
    output::print_json(&value.to_string());
}
