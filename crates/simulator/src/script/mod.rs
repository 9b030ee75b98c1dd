//! What the simulator says: a JSON script of conversations and their replies.
//!
//! The format is described for its writers in `docs/simulator.md`.

mod block;
mod error;
mod placeholder;
mod reply;
mod unreadable;

#[cfg(test)]
mod tests;

use std::fs;
use std::path::Path;

use serde::Deserialize;

pub use block::{Block, CallKind};
pub use error::ScriptError;
pub(crate) use placeholder::Placeholders;
pub use reply::{Cut, Failure, Reply};
pub use unreadable::Unreadable;

/// Conversations by the words of the user; the first that matches is played.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Script {
    /// Tried in order.
    pub conversations: Vec<Conversation>,
    /// The replies to requests for a summary, by how many the conversation had before; after the
    /// last one the simulator makes summaries up.
    pub compaction: Vec<Reply>,
    /// What happens when none of them matches.
    pub otherwise: Otherwise,
    /// What there is to say of the delivery and the failure of counts.
    pub counting: Reply,
    /// Blocks that are refused wherever a request has them.
    pub unreadable: Vec<Unreadable>,
}

/// The replies to one user message: one for each round until the next user message.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Conversation {
    /// Part of the latest user text, in any case; absent matches every text.
    pub when: Option<String>,
    /// Played in order; after the last one comes a plain "(script ended)".
    pub replies: Vec<Reply>,
}

/// What the simulator does with a user text that no conversation matches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Otherwise {
    /// Play the built-in demonstration.
    #[default]
    Demo,
    /// Refuse the request, so that a test notices a text it did not expect.
    Refuse,
}

impl Script {
    /// The built-in demonstration: reads and lists files, tells the time, and says what it found.
    pub fn demo() -> Self {
        Self::default()
    }

    /// Reads a script from its JSON text. It cannot name `raw_sse_file`: see [`Script::from_file`].
    pub fn from_json(text: &str) -> Result<Self, ScriptError> {
        Self::read(text, None)
    }

    /// Reads a script from a file; `raw_sse_file` paths in it are relative to that file.
    pub fn from_file(path: &Path) -> Result<Self, ScriptError> {
        let text = fs::read_to_string(path).map_err(|source| ScriptError::file(path, source))?;
        Self::read(&text, Some(path.parent().unwrap_or(Path::new("."))))
    }

    fn read(text: &str, folder: Option<&Path>) -> Result<Self, ScriptError> {
        let mut json = serde_json::Deserializer::from_str(text);
        let mut script: Self = serde_path_to_error::deserialize(&mut json)?;
        json.end().map_err(ScriptError::trailing)?;
        for (at, conversation) in script.conversations.iter_mut().enumerate() {
            for (reply_at, reply) in conversation.replies.iter_mut().enumerate() {
                reply.settle(&format!("conversations[{at}].replies[{reply_at}]"), folder)?;
            }
        }
        for (at, reply) in script.compaction.iter_mut().enumerate() {
            let at = format!("compaction[{at}]");
            reply.settle_summary(&at)?;
            reply.settle(&at, folder)?;
        }
        if !script.counting.content.is_empty() {
            return Err(ScriptError::field("counting.content", "a count has no content"));
        }
        script.counting.settle("counting", folder)?;
        Ok(script)
    }

    /// The reply to the request for a summary of a conversation that had so many before.
    pub(crate) fn summary(&self, number: usize) -> Option<&Reply> {
        nth(&self.compaction, number)
    }

    /// The first conversation whose `when` occurs in `user`, with its place in the script.
    pub(crate) fn find(&self, user: &str) -> Option<(usize, &Conversation)> {
        let user = user.to_lowercase();
        self.conversations.iter().enumerate().find(|(_, conversation)| {
            conversation.when.as_ref().is_none_or(|when| user.contains(&when.to_lowercase()))
        })
    }
}

impl Conversation {
    /// The reply of a round, counted from zero after the user message.
    pub(crate) fn reply(&self, round: usize) -> Option<&Reply> {
        nth(&self.replies, round)
    }
}

/// The reply of a round, each being used for as many as it says.
fn nth(replies: &[Reply], round: usize) -> Option<&Reply> {
    let mut left = round;
    for reply in replies {
        let rounds = reply.rounds();
        if left < rounds {
            return Some(reply);
        }
        left -= rounds;
    }
    None
}
