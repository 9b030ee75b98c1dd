//! Approvals at the terminal: the user decides on calls that wait.

use serde_json::Map;
use tokio_util::sync::CancellationToken;

use super::interrupts::{Interrupts, Quit};
use super::lines::{Input, Lines};
use crate::cli::client::Failure;
use crate::cli::output;
use crate::cli::talk::{Approval, Turn};
use crate::cli::terminal::{one_line, safe};
use crate::domain::permission::Decision;

const QUESTION: &str = "Allow? [y]es, [n]o (with an optional reason), [a]lways in this session: ";

const EXPLANATION: &str = "\
Type one of these and press Enter:
  y           allow this call
  n           deny it
  n REASON    deny it, and give the model this reason
  a           allow it and all such calls in this session
Ctrl-C stops the run.";

/// The outcome of asking the user about the waiting calls.
#[derive(Debug)]
pub(super) enum Decided {
    /// All calls are decided, or the run is being stopped.
    All,
    /// Standard input has ended, so no user can decide.
    InputEnded,
    /// The program must exit.
    Quit(Quit),
}

/// The user's reply to a prompt.
enum Reply {
    Allow,
    Always,
    Deny(Option<String>),
    Unclear,
}

impl Reply {
    fn read(line: &str) -> Self {
        let line = line.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let why = Some(rest.trim()).filter(|why| !why.is_empty()).map(str::to_owned);
        match (&*word.to_lowercase(), why) {
            ("y" | "yes", None) => Self::Allow,
            ("a" | "always", None) => Self::Always,
            ("n" | "no", why) => Self::Deny(why),
            _ => Self::Unclear,
        }
    }
}

/// Asks the user about each waiting call.
pub(super) async fn decide(
    turn: &mut Turn,
    lines: &mut Lines,
    interrupts: &mut Interrupts,
    stop: &CancellationToken,
) -> Result<Decided, Failure> {
    lines.defer_typed();
    for call in turn.approvals().await? {
        show(&call);
        loop {
            let input = tokio::select! {
                input = lines.answer(QUESTION) => input,
                interrupt = interrupts.next() => match interrupt {
                    Ok(()) => Input::Interrupted { discarded: false },
                    Err(quit) => return Ok(Decided::Quit(quit)),
                },
            };
            let line = match input {
                Input::Line(line) => line,
                Input::Interrupted { .. } => {
                    if lines.needs_line_break() {
                        output::print_error("");
                    }
                    stop.cancel();
                    return Ok(Decided::All);
                }
                Input::End => return Ok(Decided::InputEnded),
            };
            let id = &call.tool_use_id;
            let decided = match Reply::read(&line) {
                Reply::Unclear => {
                    output::print_error(EXPLANATION);
                    continue;
                }
                Reply::Allow => turn.decide(id, Decision::Allow, Map::new()).await,
                Reply::Always => allow_always(turn, &call).await,
                Reply::Deny(why) => {
                    let more = why.map(|why| ("message".to_owned(), why.into()));
                    turn.decide(id, Decision::Deny, more.into_iter().collect()).await
                }
            };
            decided?;
            break;
        }
    }
    Ok(Decided::All)
}

/// Prints a call. The service already escapes control characters; they are escaped here again, so
/// that the terminal does not depend on the service.
fn show(call: &Approval) {
    output::print_error(&format!("{} waits for approval:", one_line(&call.name)));
    output::print_error(&format!("  {}", safe(&call.display)));
    if let Some(reason) = &call.reason {
        output::print_error(&format!("  reason: {}", one_line(reason)));
    }
    if let Some(diff) = &call.diff {
        output::print_error(safe(diff).trim_end());
    }
}

async fn allow_always(turn: &mut Turn, call: &Approval) -> Result<(), Failure> {
    let always = Map::from_iter([("remember".to_owned(), "session".into())]);
    match turn.decide(&call.tool_use_id, Decision::Allow, always).await {
        Err(failure) if failure.code() == Some("validation_failed") => {
            output::print_error("No rule can match only this call, so it is allowed once.");
            turn.decide(&call.tool_use_id, Decision::Allow, Map::new()).await
        }
        decided => decided,
    }
}
