//! The first own message of a fork, which answers the calls of the last inherited message.

use crate::agent::history::results;
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::fork::ClosingResult;
use crate::domain::found_tools::referenced;
use crate::domain::media::with_placeholders;
use crate::domain::message::Content;
use crate::domain::tool::CallResult;
use crate::domain::tool_error::Handling;
use crate::service::error::Error;

/// The content of the message; none if there are no calls to answer.
pub(super) fn closing_content(closing: &[ClosingResult]) -> Result<Option<Content>, Error> {
    if closing.is_empty() {
        return Ok(None);
    }
    let all: Vec<CallResult> = closing.iter().map(|closing| closing.result.clone()).collect();
    results(&all).map(Some).map_err(Error::internal)
}

/// The event of a result. It belongs to no run of the fork, because the run of the call is the
/// source's.
pub(super) fn result_event(closing: &ClosingResult) -> Result<NewEvent, Error> {
    let ClosingResult { result, duration_ms } = closing;
    // The names of found tools are in the text.
    let blocks = result.content.as_ref().filter(|blocks| referenced(blocks).is_none());
    let content = match blocks {
        Some(blocks) => Content::parse(blocks.clone()).and_then(|it| with_placeholders(&it)),
        None => Content::text(&result.text),
    };
    let is_error = result.is_error();
    Ok(NewEvent::new(&EventBody::AgentToolResult {
        tool_use_id: result.tool_use_id.clone(),
        content: content.map_err(Error::internal)?,
        is_error,
        duration_ms: *duration_ms,
        error_type: result.error_type,
        handling: is_error.then(|| Handling::of(result.error_type)),
        sources: Vec::new(),
    }))
}
