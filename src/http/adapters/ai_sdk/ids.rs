//! The ids of assistant messages.

use crate::domain::ids::RunId;

/// The prefix of the ids of assistant messages.
const MESSAGE_PREFIX: &str = "msg_";

/// The id of the assistant message of a run: the same in each stream and in the history.
pub(super) fn message_id(run_id: RunId) -> String {
    format!("{MESSAGE_PREFIX}{run_id}")
}

/// The run of an assistant message; none for the id of another message.
pub(super) fn run_of(message_id: &str) -> Option<RunId> {
    message_id.strip_prefix(MESSAGE_PREFIX)?.parse().ok()
}
