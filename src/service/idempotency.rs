//! Idempotency keys: recognizing a repeated request.

/// The key of a request, and a hash of its body.
#[derive(Debug)]
pub(crate) struct IdempotencyKey {
    pub(crate) key: String,
    /// The hash. A request with the same key and another hash is refused.
    pub(crate) fingerprint: Vec<u8>,
}
