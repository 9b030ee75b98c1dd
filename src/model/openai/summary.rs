//! Summaries of a conversation. The protocol has no compaction: the model is asked for the summary in a
//! message of the user.

use serde_json::json;

use crate::domain::message::BadContent;
use crate::domain::stop_reason::ModelStop;
use crate::model::reply::Reply;

/// The request for a summary, unless the session has instructions of its own.
const INSTRUCTIONS: &str = "Summarize the conversation up to here. You will continue it with your summary \
    in place of the messages above, so keep everything that later work needs: the requests of the user \
    and their state, decisions and their reasons, names, numbers, paths and identifiers, the results of \
    tools that still matter, and open questions. Write only the summary. Call no tools.";

/// The text of the message that asks for a summary.
pub(super) fn request_text(instructions: Option<&str>) -> String {
    instructions.unwrap_or(INSTRUCTIONS).to_owned()
}

/// Returns the summary of a reply as the history stores it: an array with the block of a compaction.
/// None if the reply is incomplete or has no text.
pub fn summary_of(reply: &Reply) -> Result<Option<String>, BadContent> {
    if reply.stop != ModelStop::EndTurn {
        return Ok(None);
    }
    let text = reply.content.joined_text()?;
    let text = text.trim();
    let block = || json!([{ "type": "compaction", "content": text }]).to_string();
    Ok((!text.is_empty()).then(block))
}
