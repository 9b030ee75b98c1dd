//! `twostep sessions`.

mod show;

use std::io::stdin;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};

use super::client::{Client, ServerArgs};
use super::json::{items, some_word, word};
use super::status::Misused;
use super::terminal::{Terminals, one_line, safe_json};
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
    /// Print JSON, an object a line
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List sessions, newest first
    List {
        /// How many
        #[arg(long, default_value_t = 20, value_name = "NUMBER",
              value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
    },
    /// Show a session, and what was said in it
    Show {
        /// The session
        id: SessionId,
    },
    /// Stop what a session does, and what waits in it
    Cancel {
        /// The session
        id: SessionId,
    },
    /// Delete sessions, with all that belongs to them
    Rm {
        /// The sessions
        #[arg(required = true)]
        ids: Vec<SessionId>,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Give a session another title
    Rename {
        /// The session
        id: SessionId,
        /// Its title from now on
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
        output::complain("no sessions");
        return Ok(());
    }
    print(&sessions, json);
    if has_more {
        output::complain("There are more: say a larger --limit.");
    }
    Ok(())
}

async fn cancel(client: &Client, id: &str, json: bool) -> anyhow::Result<()> {
    let runs = client.post(&["sessions", id, "cancel"]).send().await?;
    let runs = items(&runs, "data");
    if runs.is_empty() {
        output::complain("nothing runs");
    } else if json {
        runs.iter().for_each(print_json);
    } else {
        let rows: Vec<_> =
            runs.iter().map(|run| ["id", "status"].map(|key| word(run, key).to_owned())).collect();
        table::show(["RUN", "STATUS"], &rows);
    }
    Ok(())
}

/// Deletes one after the other; a person is asked about each.
async fn remove(client: &Client, ids: &[SessionId], yes: bool, json: bool) -> anyhow::Result<()> {
    let terminals = Terminals::look();
    if !(yes || terminals.input && terminals.words) {
        let why = "nobody can be asked here whether to delete them: say --yes";
        return Err(Misused(why.to_owned()).into());
    }
    for id in ids {
        let id = id.to_string();
        if !yes {
            let session = client.get(&["sessions", &id]).send().await?;
            let title = one_line(some_word(&session, "title").unwrap_or("no title"));
            output::ask(&format!("Delete {id} ({title}) with all that was said in it? [y/N] "));
            let mut answer = String::new();
            stdin().read_line(&mut answer).context("stdin cannot be read")?;
            if !matches!(&*answer.trim().to_lowercase(), "y" | "yes") {
                output::complain("It stays.");
                continue;
            }
        }
        client.call(Method::DELETE, &["sessions", &id]).send().await?;
        if json {
            print_json(&json!({ "id": id, "deleted": true }));
        } else {
            output::say(&format!("{id} is deleted"));
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
        let updated = time(word(session, "updated_at"));
        [word(session, "id"), status(session), &updated, word(session, "title")].map(str::to_owned)
    };
    let rows: Vec<_> = sessions.iter().map(row).collect();
    table::show(["ID", "STATUS", "UPDATED (UTC)", "TITLE"], &rows);
}

/// What a session does, in a word. One whose run waits for somebody is at rest as far as the
/// service goes, and that is not what people want to know of it.
fn status(session: &Value) -> &str {
    let stopped_for = session.get("stop_reason").map_or("", |reason| word(reason, "type"));
    match word(session, "status") {
        "idle" if stopped_for == "requires_action" => "waiting",
        status => status,
    }
}

/// A time of the API as people read it, in UTC.
fn time(stamp: &str) -> String {
    stamp.split('.').next().unwrap_or_default().trim_end_matches('Z').replace('T', " ")
}

/// Prints JSON, which must not act on a terminal either.
pub(super) fn print_json(value: &Value) {
    let json = value.to_string();
    output::say(&if Terminals::look().output { safe_json(&json) } else { json.into() });
}
