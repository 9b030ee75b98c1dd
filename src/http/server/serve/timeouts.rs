//! The time that clients may take.

use std::time::Duration;

/// How long a client may take to leave that was told to.
pub(super) const LEAVES_WITHIN: Duration = Duration::from_secs(1);

/// How long a client may take. Its connection is closed if it takes longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For the head of a request: from the connection or, after another request, from its first
    /// byte.
    pub head: Duration,
    /// For the body, from the head.
    pub body: Duration,
    /// Between two requests.
    pub idle: Duration,
    /// Without taking a single byte of what it is sent.
    pub write: Duration,
}

impl Default for Timeouts {
    /// A client at work on a poor line stays below these; 75 s between requests is what common
    /// proxies expect.
    fn default() -> Self {
        Self {
            head: Duration::from_secs(10),
            body: Duration::from_secs(30),
            idle: Duration::from_secs(75),
            write: Duration::from_mins(1),
        }
    }
}
