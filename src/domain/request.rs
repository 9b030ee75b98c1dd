//! The record of a model request, kept for inspection.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::model_settings::ModelSettings;
use super::model_try::ModelTry;
use super::outcome::RunError;
use super::platform::Platform;
use super::prefix::PrefixHashes;
use super::prompt_cache::CacheTtl;
use super::provider::Dialect;
use super::sampling::SamplingRequest;
use super::title::TitleRequest;
use super::tool::ToolChoice;
use super::usage::Usage;

/// The per-request variations of a request body, besides the messages. Together with the settings
/// that the session and the run pinned, they reproduce the exact body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RequestForm {
    /// The tool choice.
    pub tool_choice: ToolChoice,
    /// The lifetime of the requested prompt cache entry; absent if none was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_cache: Option<CacheTtl>,
    /// The position of a cache breakpoint among the messages, as a byte offset.
    #[serde(default, rename = "far_mark", skip_serializing_if = "Option::is_none")]
    pub far_breakpoint: Option<usize>,
    /// The number of changes to the sent history that were in effect.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sent_changes: usize,
    /// The last message that a summary replaced, if there was a summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compacted: Option<i32>,
    /// True if the request asked for a summary, not for an answer. It then carried the messages
    /// before `message_seq`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub summary: bool,
    /// The sampling request of a tool, for a request outside the conversation. It then carried no
    /// message of the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<SamplingRequest>,
    /// The request for a title, which was made after the run had settled. It then carried no message
    /// of the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<TitleRequest>,
    /// The Chat Completions dialect, if that protocol was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_completions: Option<Dialect>,
    /// The cloud of the server, if it was one of Claude in a cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// True if the protocol was Responses.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub responses: bool,
    /// The output budget, if it differed from the session's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// The model and the settings that follow from it, if they were not those that the session pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_settings: Option<Box<ModelSettings>>,
    /// The container in which the model's server continued to run code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// The index of the fallback model of the session that was asked, from 0; absent for the model of the
    /// session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<usize>,
    /// The number of bytes of the body that the model did not read: definitions of deferred tools, less
    /// those that its server inserted in addition. Negative if it inserted more.
    #[serde(default, skip_serializing_if = "is_none_unread")]
    pub unread: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde takes")]
const fn is_zero(count: &usize) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde takes")]
const fn is_none_unread(bytes: &i64) -> bool {
    *bytes == 0
}

/// A finished request, stored with the step that follows from it.
#[derive(Debug, Clone, Serialize)]
pub struct RequestRecord {
    /// The model's name.
    pub model: String,
    /// The last message of the history that the request carried; 0 if it carried none.
    pub message_seq: i32,
    /// The other data that reproduce the body.
    pub form: RequestForm,
    /// SHA-256 of the body in hexadecimal digits.
    pub body_hash: String,
    /// Length of the body in bytes.
    pub body_length: i64,
    /// Hashes of the parts that a later request repeats.
    pub prefix: Option<PrefixHashes>,
    /// Its tries.
    pub attempts: Vec<ModelTry>,
    /// The model's own stop reason; none if there was no reply.
    pub stop_reason: Option<String>,
    /// The error, if there was no reply; none if the run was stopped meanwhile.
    pub error: Option<RunError>,
    /// Token usage.
    #[serde(skip)]
    pub usage: Usage,
    /// True if the usage includes tries that ended without a complete reply: of these, the counts
    /// that the model's server had not reported are estimated.
    pub usage_estimated: bool,
    /// Cost in micro-dollars, if a price is known.
    pub cost: Option<i64>,
    /// Time from the first try to the end of the last, in milliseconds.
    pub duration_ms: i64,
}

/// A request as stored.
#[derive(Debug, Clone)]
pub struct StoredRequest {
    /// Its number in the run, from 1.
    pub n: i32,
    /// The attempt (fencing number) of the run that sent it.
    pub attempt: i32,
    /// The record.
    pub record: RequestRecord,
    /// Time of the first try.
    pub started_at: Timestamp,
    /// Time of its end.
    pub ended_at: Timestamp,
}

/// Formats a hash as lower-case hexadecimal digits.
pub fn hexadecimal(hash: &[u8]) -> String {
    hash.iter().fold(String::with_capacity(2 * hash.len()), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
