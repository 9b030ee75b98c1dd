//! `twostep run`.

mod printer;
mod prompt;

use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::client::{Client, Failure, ServerArgs};
use super::local::{LocalArgs, Service};
use super::output;
use super::signals::shutdown_signal;
use super::status::{INTERRUPTED, NEEDS_APPROVAL};
use super::talk::{NewSessionArgs, Run, Turn, new_session};
use crate::domain::ids::SessionId;
use crate::domain::permission::{Awaits, Decision, PermissionMode};
use crate::domain::run_status::RunStatus;
use printer::RunPrinter;
use prompt::prompt;

const EXAMPLES: &str = "\
Examples:
  twostep run 'Read README.md and explain it'
  git diff | twostep run --output json - | jq -r .output_text
  twostep run --session ses_01… --yes 'Go on'
  twostep run --local --offline 'What time is it?'

Exit status: 0 success; 1 failure: the run failed, or another client cancelled it; 2 invalid
options; 3 a run waits for an approval or a client result; 4 the service cannot be reached;
130 Ctrl-C.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Command {
    /// Message to send; `-` or no argument reads it from stdin
    prompt: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    local: LocalArgs,
    /// Session to continue [default: a new session]
    #[arg(long, value_name = "ID")]
    session: Option<SessionId>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    /// Allow all calls of the new run that wait for an approval, but not those of a run that
    /// already waits
    #[arg(long, conflicts_with = "deny")]
    yes: bool,
    /// Deny all calls of the new run that wait for an approval, but not those of a run that
    /// already waits
    #[arg(long)]
    deny: bool,
    #[command(flatten)]
    new_session: NewSessionArgs,
    /// Permission mode of the session from now on
    #[arg(long, value_enum)]
    permission_mode: Option<PermissionMode>,
    /// Maximum number of rounds of tool calls; after that the model must answer
    #[arg(long, value_name = "NUMBER")]
    max_rounds: Option<u32>,
}

/// The output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// The answer; on a terminal as it streams
    Text,
    /// The run after it settled, as one JSON object
    Json,
    /// Every event and preview, one JSON object per line
    Jsonl,
}

impl Command {
    /// Sends the message and prints the result. The first signal stops the run.
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let stop = shutdown_signal()?;
        let prompt = tokio::select! {
            prompt = prompt(self.prompt.as_deref()) => prompt?,
            () = stop.cancelled() => return Ok(ExitCode::from(INTERRUPTED)),
        };
        let service = Service::open(&self.server, &self.local).await?;
        let ended = self.ask(&service.client, &prompt, stop).await;
        service.close().await?;
        ended
    }

    async fn ask(
        &self,
        client: &Client,
        prompt: &str,
        stop: CancellationToken,
    ) -> anyhow::Result<ExitCode> {
        let session = match self.session {
            Some(id) => id.to_string(),
            None => new_session(client, &self.new_session.body()).await?,
        };
        let mut printer = RunPrinter::new(self.output);
        if self.session.is_some()
            && let Some(run) = Run::find_waiting(client, &session).await?
        {
            // The message would be queued until the waiting call is decided.
            output::print_error(
                "twostep: the message was not sent, because a run of the session waits for an action",
            );
            printer.end(&run, &session);
            return Ok(ExitCode::from(NEEDS_APPROVAL));
        }
        let mut turn = Turn::begin(client, &session, &self.message(prompt), stop.clone()).await?;
        let run = loop {
            let run = turn.follow(|update| printer.show(update)).await?;
            if !self.decide(&mut turn, &run).await? {
                break run;
            }
        };
        printer.end(&run, &session);
        if stop.is_cancelled() {
            return Ok(ExitCode::from(INTERRUPTED));
        }
        Ok(match run.status {
            RunStatus::Completed => ExitCode::SUCCESS,
            RunStatus::RequiresAction => ExitCode::from(NEEDS_APPROVAL),
            RunStatus::Failed | RunStatus::Cancelled => ExitCode::FAILURE,
            RunStatus::Queued | RunStatus::Running => bail!("the run {} has not settled", run.id),
        })
    }

    /// Decides on the waiting calls if --yes or --deny is set. Returns false if nothing was decided.
    async fn decide(&self, turn: &mut Turn, run: &Run) -> Result<bool, Failure> {
        let awaits_approvals = run.pending.iter().all(|call| call.awaits == Awaits::Approval);
        if run.status != RunStatus::RequiresAction || !awaits_approvals || !(self.yes || self.deny)
        {
            return Ok(false);
        }
        let decision = if self.yes { Decision::Allow } else { Decision::Deny };
        for call in turn.approvals().await? {
            turn.decide(&call.tool_use_id, decision, Map::new()).await?;
        }
        Ok(true)
    }

    fn message(&self, prompt: &str) -> Value {
        let mut message = Map::from_iter([("content".to_owned(), json!(prompt))]);
        if let Some(rounds) = self.max_rounds {
            message.insert("limits".to_owned(), json!({ "rounds": rounds }));
        }
        if let Some(mode) = self.permission_mode {
            message.insert("permission_mode".to_owned(), json!(mode));
        }
        message.into()
    }
}
