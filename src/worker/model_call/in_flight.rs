//! A request that was sent and has not been recorded.

use std::time::Instant;

use sha2::{Digest as _, Sha256};

use crate::domain::prefix::PrefixHashes;
use crate::domain::request::RequestForm;
use crate::model::Request;

/// A request that was sent and has not been recorded.
#[derive(Debug)]
pub(in crate::worker) struct RequestInFlight {
    /// The SHA-256 of its body.
    pub(super) body_hash: [u8; 32],
    /// The number of bytes of its body.
    pub(super) body_length: usize,
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
        let body_hash = Sha256::digest(&request.body).into();
        Self::hashed(request, body_hash, form, message_seq)
    }

    /// As [`Self::new`], with the hash of the body.
    pub(in crate::worker) fn hashed(
        request: &Request,
        body_hash: [u8; 32],
        form: RequestForm,
        message_seq: i32,
    ) -> Self {
        let (body_length, prefix) = (request.body.len(), None);
        Self { body_hash, body_length, message_seq, form, prefix, started: Instant::now() }
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
