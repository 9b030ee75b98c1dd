//! Which reply a request gets. Nothing is remembered: the request's own history says it all.

use std::borrow::Cow;

use serde_json::Value;

use super::demo;
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
    pub(crate) fn of(script: &Script, ask: Ask<'_>) -> Self {
        let messages = ask.messages();
        let asked = messages.iter().enumerate().rev().find_map(|(at, message)| {
            let text = user_text(message)?;
            Some((text, at + 1))
        });
        let (user, after) = asked.unwrap_or_default();
        let conversation = script.find(&user).map(|(_, conversation)| conversation);
        let later = messages.iter().skip(after).filter(|message| role(message) == "assistant");
        let round = later.fold(0, |round, message| {
            let scripted = conversation.and_then(|conversation| conversation.reply(round));
            round + usize::from(is_round(message, scripted))
        });
        Self { user, after, round }
    }
}

/// What the user said in a message, if it is the user's and says anything.
fn user_text(message: &Value) -> Option<String> {
    let texts: Vec<&str> = blocks(message)
        .filter(|block| block.is("text") && role(message) == "user")
        .filter_map(|block| block.str("text"))
        .collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

/// Whether an assistant message is an answer. A summary that is no scripted answer is none.
fn is_round(message: &Value, scripted: Option<&Reply>) -> bool {
    let is_scripted = scripted.is_some_and(Reply::may_be_a_summary);
    let is_made = |block: Sent<'_>| {
        block.is("compaction") && (block.get("signature").is_some() || !is_scripted)
    };
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
