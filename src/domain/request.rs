//! A request to the model, as there is to look at afterwards.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::attempt::Attempt;
use super::prefix::PrefixHashes;
use super::prompt_cache::CacheTtl;
use super::provider::Dialect;
use super::question::Question;
use super::run::RunError;
use super::tool::ToolChoice;
use super::usage::Usage;

/// What varies between the requests of a session, besides the messages: with what the session and
/// the run have pinned it makes the very same body again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RequestForm {
    /// The choice of tools.
    pub tool_choice: ToolChoice,
    /// For how long the model's side was asked to cache the prefix; absent if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_cache: Option<CacheTtl>,
    /// Where a mark of the cache stands among the messages, in bytes from their beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far_mark: Option<usize>,
    /// How many changes had been made to what is sent of the history.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sent_changes: usize,
    /// The last message that a summary stood for, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compacted: Option<i32>,
    /// Whether it asked for a summary, and not for an answer. It then carried the messages before
    /// `message_seq`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub summary: bool,
    /// What a tool asked, where it was not the conversation that was carried on. It then carried no
    /// message of the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<Question>,
    /// How Chat Completions were written, where that was the protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_completions: Option<Dialect>,
    /// The output budget, where it was not the session's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde takes")]
const fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// A request that has ended, to be stored with the step that follows from it.
#[derive(Debug, Clone, Serialize)]
pub struct RequestRecord {
    /// The model that was asked.
    pub model: String,
    /// The last message of the history that it carried; 0 if it carried none.
    pub message_seq: i32,
    /// What else it takes to make its body again.
    pub form: RequestForm,
    /// SHA-256 of the body, in hexadecimal digits.
    pub body_hash: String,
    /// Bytes of the body.
    pub body_length: i64,
    /// Hashes over the parts that a later request repeats.
    pub prefix: Option<PrefixHashes>,
    /// Its tries.
    pub attempts: Vec<Attempt>,
    /// Why the model stopped, in its own word; none if there was no reply.
    pub stop_reason: Option<String>,
    /// Why there was no reply; none either if the run was stopped meanwhile.
    pub error: Option<RunError>,
    /// What it used.
    #[serde(skip)]
    pub usage: Usage,
    /// What it cost, in micro-dollars, if a price is known.
    pub cost: Option<i64>,
    /// From the first try to the end of the last.
    pub duration_ms: i64,
}

/// A request as stored.
#[derive(Debug, Clone)]
pub struct StoredRequest {
    /// Its number in the run, from 1.
    pub n: i32,
    /// The attempt of the run that sent it.
    pub attempt: i32,
    /// What was recorded of it.
    pub record: RequestRecord,
    /// When it was first sent.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
}

/// A hash as people compare it.
pub fn hexadecimal(hash: &[u8]) -> String {
    hash.iter().fold(String::with_capacity(2 * hash.len()), |mut text, byte| {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
