//! The timeouts of clients.

use std::time::Duration;

/// The time that a client has to disconnect after a shutdown has begun.
pub(super) const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// The timeouts of a client. Its connection is closed when one is exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// The head of a request: from the connection or, after another request, from its first byte.
    pub head: Duration,
    /// The body of a request, from the end of its head.
    pub body: Duration,
    /// The idle time between two requests.
    pub idle: Duration,
    /// The time without a single byte read by the client while a response is being sent.
    pub write: Duration,
}

impl Default for Timeouts {
    /// Clients on slow connections stay below these; common proxies expect 75 s between requests.
    fn default() -> Self {
        Self {
            head: Duration::from_secs(10),
            body: Duration::from_secs(30),
            idle: Duration::from_secs(75),
            write: Duration::from_mins(1),
        }
    }
}
