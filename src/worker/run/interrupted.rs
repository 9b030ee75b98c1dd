//! The message of a reply that the client interrupted.

use super::context::RunContext;
use super::messages::reply_id;
use super::stop_cause::StopCause;
use crate::agent::interrupted_reply::kept_part;
use crate::domain::event::NewEvent;
use crate::domain::message::{Message, Role};
use crate::domain::session::InterruptedReplies;
use crate::domain::stop_reason::ModelStop;
use crate::domain::usage::Usage;
use crate::store::step::NewMessage;
use crate::worker::model_call::InterruptedReply;
use crate::worker::model_call::reply_events::reply_events;

/// The message that keeps the text of an interrupted reply, with its events. None if the session
/// discards interrupted replies, or if no text was received.
pub(super) fn interrupted_message(
    run: &RunContext<'_>,
    interrupted: InterruptedReply,
    usage: Usage,
) -> Option<(NewMessage, Vec<NewEvent>)> {
    if run.settings().interrupted_replies == InterruptedReplies::Discard {
        return None;
    }
    message(run, interrupted, usage).unwrap_or_else(|cause| {
        // The run is settled all the same.
        tracing::error!(run.id = %run.run_id(), ?cause, "interrupted reply cannot be kept");
        None
    })
}

fn message(
    run: &RunContext<'_>,
    interrupted: InterruptedReply,
    usage: Usage,
) -> Result<Option<(NewMessage, Vec<NewEvent>)>, StopCause> {
    let InterruptedReply { ids, reply } = interrupted;
    let Some(content) = kept_part(&reply.content)? else { return Ok(None) };
    let stop_reason = Some(ModelStop::Interrupted);
    let message = Message { role: Role::Assistant, content, stop_reason, usage };
    let message_id = reply_id(reply.id);
    let events = reply_events(&message, &message_id, None, ids, Vec::new())?;
    let model = Some(reply.model).filter(|model| !model.is_empty());
    let model = model.or_else(|| Some(run.settings().model.clone()));
    Ok(Some((NewMessage { message_id, model, message }, events)))
}
