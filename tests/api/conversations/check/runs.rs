//! Final states of runs that a script and the actions of a test explain.

use serde_json::Value;

/// The number of consecutive crashes after which a run fails.
const CRASH_LOOP: usize = 7;

/// A fault if neither the script of the model nor an action explains the final state of a run.
pub(in crate::conversations) fn unexplained(
    run: &Value,
    replies: &Value,
    is_stopped: bool,
    restarts: usize,
) -> Option<String> {
    let is_explained = match run["status"].as_str() {
        Some("completed") => true,
        Some("cancelled") => is_stopped,
        _ => match run["error"]["type"].as_str() {
            Some("model_request_failed_error") => {
                fails_with(replies, 400) || has_duplicate_call_ids(replies)
            }
            Some("model_overloaded_error") => fails_with(replies, 529),
            Some("crash_loop") => restarts >= CRASH_LOOP,
            _ => false,
        },
    };
    (!is_explained).then(|| format!("nothing explains the final state of {run}"))
}

/// Whether a reply is this failure on every try.
fn fails_with(replies: &Value, status: u16) -> bool {
    replies.as_array().unwrap().iter().any(|reply| reply["status"] == status)
}

/// Whether a reply is invalid because two of its calls have the same id.
fn has_duplicate_call_ids(replies: &Value) -> bool {
    let has_duplicates = |reply: &Value| {
        let blocks = reply["content"].as_array().into_iter().flatten();
        let ids: Vec<&str> = blocks.filter_map(|block| block["id"].as_str()).collect();
        ids.iter().any(|id| ids.iter().filter(|other| *other == id).count() > 1)
    };
    replies.as_array().unwrap().iter().any(has_duplicates)
}
