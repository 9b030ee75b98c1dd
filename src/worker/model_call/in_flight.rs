//! A request that was sent and has not been recorded.

use std::time::Instant;

use bytes::Bytes;

use crate::domain::prefix::PrefixHashes;
use crate::domain::request::RequestForm;
use crate::model::Request;

/// A request that was sent and has not been recorded.
#[derive(Debug)]
pub(in crate::worker) struct RequestInFlight {
    pub(super) body: Bytes,
    /// The last message that the request contains.
    pub(super) message_seq: i32,
    pub(super) form: RequestForm,
    /// None if no later request begins with this one.
    pub(super) prefix: Option<PrefixHashes>,
    pub(super) started: Instant,
}

impl RequestInFlight {
    /// A request that contains the messages up to this one.
    pub(in crate::worker) fn new(request: &Request, form: RequestForm, message_seq: i32) -> Self {
        let body = request.body.clone();
        Self { body, message_seq, form, prefix: None, started: Instant::now() }
    }

    /// True if the request asks for a summary of the history.
    pub(super) fn is_summary(&self) -> bool {
        self.form.summary
    }

    /// True if the loop asked for an answer. Readers receive previews of it.
    pub(super) fn is_answer(&self) -> bool {
        !self.form.summary && self.form.question.is_none()
    }
}
