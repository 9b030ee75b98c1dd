//! A message that is being posted.

use super::input::NewMessage;
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::media::placeholder;
use crate::domain::message::{BadContent, Content};
use crate::domain::run::Run;
use crate::domain::trace::Trace;
use crate::service::content::LARGE;
use crate::service::error::Error;
use crate::service::state::Service;

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

/// A message that is being posted.
#[derive(Debug)]
pub(in crate::service) struct MessagePost<'a> {
    pub(super) service: &'a Service,
    pub(super) tenant: TenantId,
    pub(super) session_id: SessionId,
    pub(super) message: &'a NewMessage,
    pub(super) request: &'a PostMessage,
    /// True if the content must be checked together with the content of the session.
    pub(super) needs_check: bool,
    /// True if the message is accepted only by an idle session that has not received it before.
    pub(super) only_starts: bool,
}

impl<'a> MessagePost<'a> {
    /// Prepares a message to be posted.
    pub(in crate::service) fn new(
        service: &'a Service,
        request: &'a PostMessage,
    ) -> Result<Self, Error> {
        let PostMessage { tenant, session_id, message, .. } = request;
        let needs_check = needs_check(&message.content)?;
        Ok(Self {
            service,
            tenant: *tenant,
            session_id: *session_id,
            message,
            request,
            needs_check,
            only_starts: false,
        })
    }
}

/// Returns true if a message must be checked with its session. Plain text of a usual size needs no
/// check.
fn needs_check(content: &Content) -> Result<bool, Error> {
    Ok(content.as_str().len() >= LARGE || has_media(content).map_err(Error::internal)?)
}

fn has_media(content: &Content) -> Result<bool, BadContent> {
    for block in content.blocks()? {
        if placeholder(block.raw)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}
