//! `twostep chat`.

mod decide;
mod editor;
mod interrupts;
mod lines;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::client::{Client, Failure, ServerArgs};
use super::json::{items, non_empty_string, string};
use super::local::{LocalArgs, Service};
use super::output;
use super::status::NEEDS_APPROVAL;
use super::talk::{NewSessionArgs, NoteStyle, Run, Screen, Turn, new_session};
use super::terminal::Terminals;
use crate::domain::ids::SessionId;
use crate::domain::permission::{Awaits, PermissionMode};
use crate::domain::run_status::RunStatus;
use decide::{Decided, decide};
use interrupts::{Interrupts, Quit};
use lines::{Input, Lines};

/// The time within which a second Ctrl-C quits although the line has text.
const QUIT_WITHIN: Duration = Duration::from_secs(2);

const EXAMPLES: &str = "\
Examples:
  twostep chat
  twostep chat --continue
  twostep chat --session ses_01…
  twostep chat --local --offline

Enter sends a message, Alt-Enter begins another line, and pasted text is one message. Ctrl-C stops
the run, a second Ctrl-C quits; Ctrl-D ends the chat. Without a terminal each line is a message.
Exit status: 0 success; 1 failure: a run failed, and the lines came from a program; 2 invalid
options; 3 a run waits for an approval or a client result; 4 the service cannot be reached;
130 Ctrl-C.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Command {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    local: LocalArgs,
    /// Session to continue [default: a new session]
    #[arg(long, value_name = "ID")]
    session: Option<SessionId>,
    /// Continue the newest session, if one exists
    #[arg(long = "continue", conflicts_with_all = ["session", "new"])]
    goes_on: bool,
    /// Start a new session (the default)
    #[arg(long, conflicts_with = "session")]
    new: bool,
    #[command(flatten)]
    new_session: NewSessionArgs,
    /// Permission mode of the session, from the first message
    #[arg(long, value_enum)]
    permission_mode: Option<PermissionMode>,
}

impl Command {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        // Before anything is started, so that a signal always shuts down gracefully.
        let interrupts = Interrupts::new()?;
        let service = Service::open(&self.server, &self.local).await?;
        let terminals = Terminals::detect();
        let mut chat = Chat {
            client: service.client.clone(),
            session: None,
            new_session: self.new_session.body(),
            permission_mode: self.permission_mode,
            lines: Lines::open(terminals),
            interrupts,
            screen: screen(terminals),
            terminals,
            has_failed: false,
        };
        let ended = chat.talk(self.session, self.goes_on).await;
        if let (true, Some(session)) = (terminals.is_interactive(), &chat.session) {
            output::print_error(&format!("To continue: twostep chat --session {session}"));
        }
        // Another signal skips the graceful shutdown of the local service.
        tokio::select! {
            closed = service.close() => closed?,
            _ = chat.interrupts.next() => {}
        }
        ended
    }
}

fn screen(terminals: Terminals) -> Screen {
    let notes = NoteStyle::of_conversation(terminals);
    if terminals.is_interactive() { Screen::rich(notes) } else { Screen::new(notes) }
}

/// A conversation with a user at a terminal, or with a program.
struct Chat {
    client: Client,
    /// Created with the first message.
    session: Option<String>,
    new_session: Value,
    /// The mode that the next message sets.
    permission_mode: Option<PermissionMode>,
    lines: Lines,
    interrupts: Interrupts,
    screen: Screen,
    terminals: Terminals,
    has_failed: bool,
}

/// The state in which the chat stopped following a run.
enum RunState {
    Settled,
    /// It waits for a decision or a result.
    Waiting,
    Quit(Quit),
}

impl Chat {
    async fn talk(
        &mut self,
        session: Option<SessionId>,
        goes_on: bool,
    ) -> anyhow::Result<ExitCode> {
        let mut state = self.enter(session, goes_on).await?;
        loop {
            match state {
                RunState::Settled => {}
                RunState::Waiting => return Ok(ExitCode::from(NEEDS_APPROVAL)),
                RunState::Quit(Quit(status)) => return Ok(ExitCode::from(status)),
            }
            let line = match self.line().await {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(Quit(status)) => return Ok(ExitCode::from(status)),
            };
            state = match self.say(&line).await {
                Ok(state) => state,
                // A user at a terminal may send the message again.
                Err(failure) if self.terminals.input => {
                    output::print_error(&format!("twostep: {failure}"));
                    RunState::Settled
                }
                Err(failure) => return Err(failure.into()),
            };
        }
        let has_failed = self.has_failed && !self.terminals.input;
        Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Continues a session, and its current run if it has one.
    async fn enter(
        &mut self,
        session: Option<SessionId>,
        goes_on: bool,
    ) -> Result<RunState, Failure> {
        let session = match session {
            Some(id) => self.client.get(&["sessions", &id.to_string()]).send().await?,
            None if goes_on => {
                let newest = self.client.get_with(&["sessions"], &[("limit", "1")]).send().await?;
                items(&newest, "data").first().cloned().unwrap_or_default()
            }
            None => Value::Null,
        };
        let Some(id) = non_empty_string(&session, "id") else { return Ok(RunState::Settled) };
        self.session = Some(id.to_owned());
        self.screen.note(format!("session {id} {}", string(&session, "title")).trim_end());
        let Some(run) = non_empty_string(&session, "active_run_id") else {
            return Ok(RunState::Settled);
        };
        let stop = CancellationToken::new();
        let turn = Turn::of(&self.client, id, run, stop.clone());
        self.follow(turn, stop).await
    }

    /// Reads the next message. `None` at the end of input.
    async fn line(&mut self) -> Result<Option<String>, Quit> {
        let mut warned: Option<Instant> = None;
        loop {
            let input = tokio::select! {
                input = self.lines.message() => input,
                interrupt = self.interrupts.next() => {
                    interrupt?;
                    Input::Interrupted { discarded: false }
                }
            };
            match input {
                Input::Line(line) if line.trim().is_empty() => {}
                Input::Line(line) => return Ok(Some(line)),
                Input::Interrupted { discarded } => {
                    // Text that was typed after the warning shows that the user goes on.
                    if warned.is_some_and(|at| !discarded || at.elapsed() < QUIT_WITHIN) {
                        return Err(Quit(super::status::INTERRUPTED));
                    }
                    warned = Some(Instant::now());
                    let line_break = if self.lines.needs_line_break() { "\n" } else { "" };
                    output::print_error(&format!("{line_break}Ctrl-C again to quit."));
                }
                Input::End => {
                    if self.lines.needs_line_break() {
                        output::print_error("");
                    }
                    return Ok(None);
                }
            }
        }
    }

    /// Posts a message and follows its run.
    async fn say(&mut self, line: &str) -> Result<RunState, Failure> {
        let session = if let Some(session) = &self.session {
            session.clone()
        } else {
            let session = new_session(&self.client, &self.new_session).await?;
            self.screen.note(&format!("session {session}"));
            self.session.insert(session).clone()
        };
        let mut message = Map::from_iter([("content".to_owned(), json!(line))]);
        if let Some(mode) = self.permission_mode {
            message.insert("permission_mode".to_owned(), json!(mode));
        }
        let message = message.into();
        let stop = CancellationToken::new();
        let turn = tokio::select! {
            turn = Turn::begin(&self.client, &session, &message, stop.clone()) => turn?,
            quit = self.interrupts.until_second(&stop) => return Ok(RunState::Quit(quit)),
        };
        self.permission_mode = None;
        self.follow(turn, stop).await
    }

    /// Shows a run and asks about its calls until it has settled.
    async fn follow(
        &mut self,
        mut turn: Turn,
        stop: CancellationToken,
    ) -> Result<RunState, Failure> {
        self.screen.begin();
        loop {
            let settled = turn.follow(|update| self.screen.show(update));
            let run = tokio::select! {
                run = settled => run,
                quit = self.interrupts.until_second(&stop) => return Ok(RunState::Quit(quit)),
            };
            self.screen.end_line();
            let run = run?;
            if run.status != RunStatus::RequiresAction {
                self.settle(&run);
                return Ok(RunState::Settled);
            }
            if run.pending.iter().any(|call| call.awaits == Awaits::Client) {
                for call in &run.pending {
                    output::print_error(&call.line());
                }
                return Ok(RunState::Waiting);
            }
            let decided = decide(&mut turn, &mut self.lines, &mut self.interrupts, &stop).await?;
            match decided {
                Decided::All => {}
                Decided::Quit(quit) => return Ok(RunState::Quit(quit)),
                Decided::InputEnded => {
                    output::print_error("\nNo decision was made: the run waits.");
                    return Ok(RunState::Waiting);
                }
            }
        }
    }

    fn settle(&mut self, run: &Run) {
        self.has_failed |= run.status != RunStatus::Completed;
        if let Some(problem) = run.problem() {
            output::print_error(&format!("twostep: {problem}"));
        }
    }
}
