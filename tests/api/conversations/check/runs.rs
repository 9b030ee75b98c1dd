//! How runs may end.

use serde_json::Value;

/// So many processes in a row have to die on a run before it is given up.
const CRASH_LOOP: usize = 3;

/// A run that has ended in a way that neither the script of its model nor anybody's deed explains.
pub(in crate::conversations) fn unexplained(
    run: &Value,
    replies: &Value,
    is_stopped: bool,
    kills: usize,
) -> Option<String> {
    let is_explained = match run["status"].as_str() {
        Some("completed") => true,
        Some("cancelled") => is_stopped,
        _ => match run["error"]["type"].as_str() {
            Some("model_request_failed_error") => {
                fails_with(replies, 400) || has_two_calls_of_one_id(replies)
            }
            Some("model_overloaded_error") => fails_with(replies, 529),
            Some("crash_loop") => kills >= CRASH_LOOP,
            _ => false,
        },
    };
    (!is_explained).then(|| format!("nothing explains the end of {run}"))
}

/// Whether a reply is this failure, however often it is asked for.
fn fails_with(replies: &Value, status: u16) -> bool {
    replies.as_array().unwrap().iter().any(|reply| reply["status"] == status)
}

/// Whether a reply is none that can be read.
fn has_two_calls_of_one_id(replies: &Value) -> bool {
    let is_unreadable = |reply: &Value| {
        let blocks = reply["content"].as_array().into_iter().flatten();
        let ids: Vec<&str> = blocks.filter_map(|block| block["id"].as_str()).collect();
        ids.iter().any(|id| ids.iter().filter(|other| *other == id).count() > 1)
    };
    replies.as_array().unwrap().iter().any(is_unreadable)
}
