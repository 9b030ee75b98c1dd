//! A request to a model server.

use std::sync::Arc;

use bytes::Bytes;

use crate::domain::trace::Trace;

/// The serialized messages of a request.
#[derive(Debug, Clone, Copy)]
pub struct Messages<'a> {
    /// Messages in the format of the Messages API, separated by commas.
    pub text: &'a str,
    /// Offset in `text` of a second cache breakpoint: just before the closing brace of the last
    /// block of the previous request. `None` unless so many blocks were added since that the
    /// server's lookback would not find that cache entry.
    pub far_breakpoint: Option<usize>,
    /// True if the messages begin with a compaction summary.
    pub is_compacted: bool,
    /// The container in which the server continues to run code.
    pub container: Option<&'a str>,
}

/// A request that can be sent more than once.
#[derive(Debug, Clone)]
pub struct Request {
    /// The body, as JSON text.
    pub body: Bytes,
    /// Names of the beta features that the request uses, separated by commas.
    pub betas: Arc<str>,
    /// The model, for servers that expect it in the URL instead of the body.
    pub model_in_url: Option<Arc<str>>,
    /// The trace context to propagate.
    pub trace: Option<Trace>,
}
