//! Calls that wait for somebody who decides: the person at the terminal.

use serde_json::Map;
use tokio_util::sync::CancellationToken;

use super::interrupts::{Interrupts, Quit};
use super::lines::Lines;
use crate::cli::client::Failure;
use crate::cli::output;
use crate::cli::talk::{Approval, Turn};
use crate::cli::terminal::{one_line, safe};
use crate::domain::permission::Decision;

/// What became of the calls.
#[derive(Debug)]
pub(super) enum Decided {
    /// All are decided, or the run is to be stopped.
    All,
    /// Nobody is there any more who could decide.
    Nobody,
    /// The program is to end.
    Quit(Quit),
}

/// What somebody says to a question.
enum Answer {
    Allow,
    Always,
    Deny(Option<String>),
    Unclear,
}

impl Answer {
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

/// Asks about each call that waits.
pub(super) async fn decide(
    turn: &mut Turn,
    lines: &mut Lines,
    interrupts: &mut Interrupts,
    stop: &CancellationToken,
) -> Result<Decided, Failure> {
    lines.put_aside();
    for call in turn.approvals().await? {
        show(&call);
        loop {
            output::ask("Allow it? [y]es, [n]o (and why), [a]lways in this session: ");
            let line = tokio::select! {
                line = lines.answer() => line,
                interrupt = interrupts.next() => {
                    if let Err(quit) = interrupt {
                        return Ok(Decided::Quit(quit));
                    }
                    output::complain("");
                    stop.cancel();
                    return Ok(Decided::All);
                }
            };
            let Some(line) = line else { return Ok(Decided::Nobody) };
            let id = &call.tool_use_id;
            let decided = match Answer::read(&line) {
                Answer::Unclear => continue,
                Answer::Allow => turn.decide(id, Decision::Allow, Map::new()).await,
                Answer::Always => allow_always(turn, &call).await,
                Answer::Deny(why) => {
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

/// The service writes what does not show as escapes; nothing is taken on trust here all the same.
fn show(call: &Approval) {
    output::complain(&format!("{} wants to run:", one_line(&call.name)));
    output::complain(&format!("  {}", safe(&call.display)));
    if let Some(reason) = &call.reason {
        output::complain(&format!("  because: {}", one_line(reason)));
    }
    if let Some(diff) = &call.diff {
        output::complain(safe(diff).trim_end());
    }
}

async fn allow_always(turn: &mut Turn, call: &Approval) -> Result<(), Failure> {
    let always = Map::from_iter([("remember".to_owned(), "session".into())]);
    match turn.decide(&call.tool_use_id, Decision::Allow, always).await {
        Err(failure) if failure.code() == Some("validation_failed") => {
            output::complain("No rule can stand for this call and no other: it is allowed once.");
            turn.decide(&call.tool_use_id, Decision::Allow, Map::new()).await
        }
        decided => decided,
    }
}
