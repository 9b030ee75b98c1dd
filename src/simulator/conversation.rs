//! Which reply a request gets. Nothing is remembered: the request's own history says it all.

use std::borrow::Cow;

use serde_json::Value;

use super::demo;
use super::models::COMPACT;
use super::refusal::Refusal;
use super::request::{Ask, Sent, blocks, role};
use super::script::{Block, Otherwise, Reply, Script};
use super::signature::summary;

/// Where a request stands in its conversation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cue {
    /// The text of the last user message that has any.
    pub(crate) user: String,
    /// How many messages there are up to that one, itself included.
    pub(crate) after: usize,
    /// How many assistant messages follow that message.
    pub(crate) round: usize,
}

/// Where a reply comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The conversation of this number.
    Conversation(usize),
    /// The summaries, of which the conversation had so many before.
    Summaries(usize),
    /// The demonstration.
    Demo,
}

/// A reply and where it comes from.
#[derive(Debug)]
pub(crate) struct Pick<'a> {
    pub(crate) source: Source,
    pub(crate) reply: Cow<'a, Reply>,
}

impl Cue {
    /// Reads the cue from the history of a request.
    pub(crate) fn of(ask: Ask<'_>) -> Self {
        let mut round = 0;
        for (at, message) in ask.messages().iter().enumerate().rev() {
            if role(message) == "assistant" {
                round += usize::from(is_round(ask, message));
            } else if role(message) == "user" {
                let texts: Vec<&str> = blocks(message)
                    .filter(|block| block.is("text"))
                    .filter_map(|block| block.str("text"))
                    .collect();
                if !texts.is_empty() {
                    return Self { user: texts.join("\n"), after: at + 1, round };
                }
            }
        }
        Self { user: String::new(), after: 0, round }
    }
}

/// Whether an assistant message is an answer. A summary that is no scripted answer is none.
fn is_round(ask: Ask<'_>, message: &Value) -> bool {
    let is_unscripted =
        |block: Sent<'_>| block.get("signature").is_some() || ask.edit(COMPACT).is_some();
    let is_made = |block: Sent<'_>| block.is("compaction") && is_unscripted(block);
    !blocks(message).all(is_made)
}

/// The reply of `script` to a request with this cue.
pub(crate) fn pick<'a>(script: &'a Script, ask: Ask<'_>, cue: &Cue) -> Result<Pick<'a>, Refusal> {
    if ask.compaction().is_some() {
        let number = summary::number(ask);
        let reply = script.summary(number).map_or_else(summed_up, Cow::Borrowed);
        return Ok(Pick { source: Source::Summaries(number), reply });
    }
    if let Some((number, conversation)) = script.find(&cue.user) {
        let reply = conversation.reply(cue.round).map_or_else(ended, Cow::Borrowed);
        return Ok(Pick { source: Source::Conversation(number), reply });
    }
    match script.otherwise {
        Otherwise::Demo => {
            Ok(Pick { source: Source::Demo, reply: Cow::Owned(demo::reply(ask, cue)) })
        }
        Otherwise::Refuse => Err(Refusal::invalid(format!(
            "script: no conversation matches the user text {:?}",
            cue.user
        ))),
    }
}

fn summed_up<'a>() -> Cow<'a, Reply> {
    Cow::Owned(Reply::of(vec![Block::summary()]))
}

fn ended<'a>() -> Cow<'a, Reply> {
    Cow::Owned(Reply::of(vec![Block::text("(script ended)")]))
}
