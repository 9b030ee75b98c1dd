//! Selection of the reply to a request, from the request's own history alone.

use std::borrow::Cow;

use serde_json::Value;

use super::demo;
use super::refusal::Refusal;
use super::request::{ApiRequest, ContentBlock, blocks, role};
use super::script::{Block, Otherwise, Reply, Script};
use super::signature::summary;

/// The position of a request in its conversation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// The text of the last user message with text.
    pub(crate) user: String,
    /// The number of messages up to that message, inclusive.
    pub(crate) after: usize,
    /// The number of assistant messages after that message.
    pub(crate) round: usize,
}

/// The origin of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The conversation with this index in the script.
    Conversation(usize),
    /// A scripted summary, with the number of summaries before it.
    Summaries(usize),
    /// The built-in demonstration.
    Demo,
}

/// The reply to a request, and its origin.
#[derive(Debug)]
pub(crate) struct Selection<'a> {
    pub(crate) source: Source,
    pub(crate) reply: Cow<'a, Reply>,
}

impl Position {
    /// Determines the position of a request from its history.
    pub(crate) fn of(script: &Script, request: ApiRequest<'_>) -> Self {
        let messages = request.messages();
        let asked = messages.iter().enumerate().rev().find_map(|(at, message)| {
            let text = user_text(message)?;
            Some((text, at + 1))
        });
        let (user, after) = asked.unwrap_or_default();
        let conversation =
            script.find(&user, &request.system()).map(|(_, conversation)| conversation);
        let later = messages.iter().skip(after).filter(|message| role(message) == "assistant");
        let round = later.fold(0, |round, message| {
            let scripted = conversation.and_then(|conversation| conversation.reply(round));
            round + usize::from(is_round(message, scripted))
        });
        Self { user, after, round }
    }
}

/// Returns the text of a user message, if it has any.
fn user_text(message: &Value) -> Option<String> {
    let texts: Vec<&str> = blocks(message)
        .filter(|block| block.is("text") && role(message) == "user")
        .filter_map(|block| block.str("text"))
        .collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

/// True if an assistant message counts as a round. A summary counts only if it is a scripted reply.
fn is_round(message: &Value, scripted: Option<&Reply>) -> bool {
    let is_scripted = scripted.is_some_and(Reply::may_be_a_summary);
    let is_made = |block: ContentBlock<'_>| {
        block.is("compaction") && (block.get("signature").is_some() || !is_scripted)
    };
    !blocks(message).all(is_made)
}

/// Selects the reply to a request at this position.
pub(crate) fn select<'a>(
    script: &'a Script,
    request: ApiRequest<'_>,
    position: &Position,
) -> Result<Selection<'a>, Refusal> {
    if request.compaction().is_some() {
        let number = summary::number(request);
        let reply = script.summary(number).map_or_else(summed_up, Cow::Borrowed);
        return Ok(Selection { source: Source::Summaries(number), reply });
    }
    if let Some((number, conversation)) = script.find(&position.user, &request.system()) {
        let reply = conversation.reply(position.round).map_or_else(ended, Cow::Borrowed);
        return Ok(Selection { source: Source::Conversation(number), reply });
    }
    match script.otherwise {
        Otherwise::Demo => Ok(Selection {
            source: Source::Demo,
            reply: Cow::Owned(demo::reply(request, position)),
        }),
        Otherwise::Refuse => Err(Refusal::invalid(format!(
            "script: no conversation matches the user text {:?}",
            position.user
        ))),
    }
}

fn summed_up<'a>() -> Cow<'a, Reply> {
    Cow::Owned(Reply::of(vec![Block::summary()]))
}

fn ended<'a>() -> Cow<'a, Reply> {
    Cow::Owned(Reply::of(vec![Block::text("(script ended)")]))
}
