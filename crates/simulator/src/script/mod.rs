//! The script: conversations and their replies, as JSON.
//!
//! `docs/simulator.md` describes the format.

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
pub use reply::{ContainerReport, Cut, Failure, Reply};
pub use unreadable::Unreadable;

/// A script. The first conversation that matches the user's text is played.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Script {
    /// The conversations, in the order of matching.
    pub conversations: Vec<Conversation>,
    /// The replies to requests for a summary, indexed by the number of earlier summaries. After the
    /// last one the simulator generates summaries.
    pub compaction: Vec<Reply>,
    /// The behaviour when no conversation matches.
    pub otherwise: Otherwise,
    /// Delivery and failure of `count_tokens`.
    pub counting: Reply,
    /// Blocks that the simulator refuses in every request.
    pub unreadable: Vec<Unreadable>,
    /// The lifetime of containers in milliseconds; absent means 270,000, as the API's.
    pub container_ms: Option<u32>,
}

/// The replies to one user message: one for each round until the next user message.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Conversation {
    /// A substring of the latest user text, ignoring case; absent matches every text.
    pub when: Option<String>,
    /// A substring of the system prompt, ignoring case; absent matches every one.
    pub when_system: Option<String>,
    /// The replies, in order. After the last one the reply is the text "(script ended)".
    pub replies: Vec<Reply>,
}

/// The behaviour for a user text that no conversation matches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Otherwise {
    /// Plays the built-in demonstration.
    #[default]
    Demo,
    /// Refuses the request, so that a test notices an unexpected text.
    Refuse,
}

impl Script {
    /// The built-in demonstration, which reads and lists files, reports the time, and describes the
    /// results.
    pub fn demo() -> Self {
        Self::default()
    }

    /// Parses a script from its JSON text. It cannot use `raw_sse_file`: see [`Script::from_file`].
    pub fn from_json(text: &str) -> Result<Self, ScriptError> {
        Self::read(text, None)
    }

    /// Reads a script from a file. Paths in `raw_sse_file` are relative to that file.
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
            return Err(ScriptError::field(
                "counting.content",
                "must be absent: a count has no content",
            ));
        }
        script.counting.settle("counting", folder)?;
        Ok(script)
    }

    /// The reply to a request for a summary, after `number` earlier summaries.
    pub(crate) fn summary(&self, number: usize) -> Option<&Reply> {
        nth(&self.compaction, number)
    }

    /// The first conversation whose conditions are met by the user's text and the system prompt,
    /// with its index.
    pub(crate) fn find(&self, user: &str, system: &str) -> Option<(usize, &Conversation)> {
        let [user, system] = [user, system].map(str::to_lowercase);
        let has = |text: &str, part: &Option<String>| {
            part.as_ref().is_none_or(|part| text.contains(&part.to_lowercase()))
        };
        self.conversations.iter().enumerate().find(|(_, conversation)| {
            has(&user, &conversation.when) && has(&system, &conversation.when_system)
        })
    }
}

impl Conversation {
    /// The reply of a round. Rounds count from zero after the user message.
    pub(crate) fn reply(&self, round: usize) -> Option<&Reply> {
        nth(&self.replies, round)
    }
}

/// The reply of a round; each reply serves as many rounds as its `repeat` says.
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
