//! Accepting a message, which starts a run or is queued.

mod accept;
mod content_check;
mod input;
mod locked;
mod refusal;
mod repeat;

use super::Service;
use super::error::Error;
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::run::Run;
use crate::domain::trace::Trace;
use content_check::needs_check;
pub(crate) use input::{MessageInput, NewMessage};

/// A request to post a message.
#[derive(Debug)]
pub(crate) struct PostMessage {
    /// The tenant.
    pub(crate) tenant: TenantId,
    /// The session.
    pub(crate) session_id: SessionId,
    /// The message.
    pub(crate) message: NewMessage,
    /// The client's key, by which a repeated request is recognized.
    pub(crate) idempotency_key: Option<String>,
    /// The versions of the session that the client expects; none for any version.
    pub(crate) versions: Option<Vec<i64>>,
    /// The trace of the request.
    pub(crate) trace: Trace,
    /// The other events of the same request, in a canonical form; part of the fingerprint.
    pub(crate) other_events: Vec<u8>,
}

/// The run of a message.
#[derive(Debug)]
pub(crate) struct PostedRun {
    /// The run.
    pub(crate) run: Run,
    /// True if an earlier request posted the same message.
    pub(crate) is_repeated: bool,
}

/// Accepts a message, or finds the run of an earlier identical request.
///
/// An idle session accepts it and starts its run in one statement; a busy session queues it,
/// refuses it, or interrupts the live run, as the message or the operator chooses.
pub(crate) async fn post_message(
    service: &Service,
    request: &PostMessage,
) -> Result<PostedRun, Error> {
    MessagePost::new(service, request)?.post().await
}

/// A message that is being posted.
#[derive(Debug)]
pub(super) struct MessagePost<'a> {
    service: &'a Service,
    tenant: TenantId,
    session_id: SessionId,
    message: &'a NewMessage,
    request: &'a PostMessage,
    /// True if the content must be checked together with the content of the session.
    needs_check: bool,
}

impl<'a> MessagePost<'a> {
    /// Prepares a message to be posted.
    pub(super) fn new(service: &'a Service, request: &'a PostMessage) -> Result<Self, Error> {
        let PostMessage { tenant, session_id, message, .. } = request;
        let needs_check = needs_check(&message.content)?;
        Ok(Self {
            service,
            tenant: *tenant,
            session_id: *session_id,
            message,
            request,
            needs_check,
        })
    }
}
