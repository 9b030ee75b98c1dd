//! Messages that the worker stores.

use super::stop_cause::StopCause;
use crate::domain::claim::Claimed;
use crate::domain::ids::MessageId;
use crate::domain::message::{Content, Message, Role};
use crate::domain::usage::Usage;
use crate::store::step::NewMessage;

/// A message of the user role.
pub(in crate::worker) fn user_message(content: Content) -> Message {
    Message { role: Role::User, content, stop_reason: None, usage: Usage::default() }
}

/// The message of the user that a run answers.
pub(super) fn first_message(claim: &Claimed) -> Result<NewMessage, StopCause> {
    let message = user_message(Content::parse(claim.input.clone())?);
    Ok(NewMessage { message_id: claim.message_id.clone(), model: None, message })
}

/// A user message with an id of its own.
pub(in crate::worker) fn new_user_message(message: Message) -> NewMessage {
    NewMessage { message_id: MessageId::new().to_string(), model: None, message }
}

/// The id of the message of a reply: the model's own, or a new one.
pub(in crate::worker) fn reply_id(own: String) -> String {
    if own.is_empty() { MessageId::new().to_string() } else { own }
}
