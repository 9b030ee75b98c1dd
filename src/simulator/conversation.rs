//! Which reply a request gets. Nothing is remembered: the request's own history says it all.

use std::borrow::Cow;

use super::demo;
use super::refusal::Refusal;
use super::request::{Ask, blocks, role};
use super::script::{Block, Otherwise, Reply, Script};

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

/// A reply and the number of its conversation, if it is scripted.
#[derive(Debug)]
pub(crate) struct Pick<'a> {
    pub(crate) conversation: Option<usize>,
    pub(crate) reply: Cow<'a, Reply>,
}

impl Cue {
    /// Reads the cue from the history of a request.
    pub(crate) fn of(ask: Ask<'_>) -> Self {
        let mut round = 0;
        for (at, message) in ask.messages().iter().enumerate().rev() {
            if role(message) == "assistant" {
                round += 1;
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

/// The reply of `script` to a request with this cue.
pub(crate) fn pick<'a>(script: &'a Script, ask: Ask<'_>, cue: &Cue) -> Result<Pick<'a>, Refusal> {
    if let Some((number, conversation)) = script.find(&cue.user) {
        let reply = conversation.reply(cue.round).map_or_else(ended, Cow::Borrowed);
        return Ok(Pick { conversation: Some(number), reply });
    }
    match script.otherwise {
        Otherwise::Demo => {
            Ok(Pick { conversation: None, reply: Cow::Owned(demo::reply(ask, cue)) })
        }
        Otherwise::Refuse => Err(Refusal::invalid(format!(
            "script: no conversation matches the user text {:?}",
            cue.user
        ))),
    }
}

fn ended<'a>() -> Cow<'a, Reply> {
    Cow::Owned(Reply::of(vec![Block::text("(script ended)")]))
}
