//! The usage that the server reports in a stream.

use crate::domain::context::ReplyCompaction;
use crate::domain::usage::Usage;
use crate::model::raw_object::RawObject;

/// The maximum token count of one request; higher counts are errors of the server and are clamped.
const MAX_TOKENS: i64 = 1_000_000_000;

/// The usage of the request. The usage of a server-side compaction is billed as well, but is not
/// included in the counts of the reply.
pub(super) fn usage(fields: &RawObject) -> Usage {
    let mut usage = counts(fields);
    usage += summaries(fields);
    usage
}

/// The usage of server-side compactions.
fn summaries(fields: &RawObject) -> Usage {
    let mut usage = Usage::default();
    for summary in steps(fields, "compaction") {
        usage += counts(&summary);
    }
    usage
}

/// The iterations of this type that the usage lists.
fn steps(usage: &RawObject, kind: &str) -> Vec<RawObject> {
    let mut steps: Vec<RawObject> = usage.read("iterations").unwrap_or_default();
    steps.retain(|step| step.read::<String>("type").is_some_and(|it| it == kind));
    steps
}

/// The prompt tokens of the first compaction, and of the message after the last compaction.
pub(super) fn compaction(usage: &RawObject) -> Option<ReplyCompaction> {
    let prompt = |step: &RawObject| counts(step).prompt();
    let tokens_before = steps(usage, "compaction").first().map(prompt)?;
    let tokens_after = steps(usage, "message").last().map(prompt);
    Some(ReplyCompaction { tokens_before, tokens_after, usage: summaries(usage) })
}

fn counts(fields: &RawObject) -> Usage {
    let of = |fields: &RawObject, key| fields.read::<i64>(key).unwrap_or(0).clamp(0, MAX_TOKENS);
    let count = |key| of(fields, key);
    let within = |object, key| fields.read(object).map_or(0, |fields: RawObject| of(&fields, key));
    let (written, output) = (count("cache_creation_input_tokens"), count("output_tokens"));
    Usage {
        input_tokens: count("input_tokens"),
        cache_creation_input_tokens: written,
        cache_read_input_tokens: count("cache_read_input_tokens"),
        output_tokens: output,
        cache_creation_1h_input_tokens: within("cache_creation", "ephemeral_1h_input_tokens")
            .min(written),
        thinking_tokens: within("output_tokens_details", "thinking_tokens").min(output),
        web_search_requests: within("server_tool_use", "web_search_requests"),
        web_fetch_requests: within("server_tool_use", "web_fetch_requests"),
    }
}
