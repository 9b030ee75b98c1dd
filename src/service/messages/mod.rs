//! Accepting a message, which starts a run or is queued.

mod accept;
mod content_check;
mod early_run;
mod input;
mod known;
mod locked;
mod message_post;
mod refusal;
mod repeat;
mod retry;
mod withdraw;

use super::error::Error;
use super::state::Service;
pub(crate) use input::{MessageInput, NewMessage};
pub(crate) use known::{KnownMessage, find_known};
pub(super) use message_post::MessagePost;
pub(crate) use message_post::{PostMessage, PostedRun};
pub(crate) use retry::{RetryRun, retry_run};
pub(crate) use withdraw::withdraw_message;

/// Accepts a message, or finds the run of an earlier identical request.
///
/// An idle session accepts it and starts its run in one statement; a busy session queues it,
/// refuses it, or interrupts the active run, as the message or the operator chooses.
pub(crate) async fn post_message(
    service: &Service,
    request: &PostMessage,
) -> Result<PostedRun, Error> {
    MessagePost::new(service, request)?.post().await
}

/// Accepts a message that starts a run. None if the session is not idle, does not accept it, or has
/// received it before; nothing has happened then.
pub(crate) async fn start_message(
    service: &Service,
    request: &PostMessage,
) -> Result<Option<PostedRun>, Error> {
    MessagePost { only_starts: true, ..MessagePost::new(service, request)? }.try_post().await
}
