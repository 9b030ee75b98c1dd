//! The routes that a listener serves, and their configuration.

use axum::Router;
use tokio_util::sync::CancellationToken;

use super::timeouts::Timeouts;
use crate::http::server::forwarded::Forwarding;

/// The routes of a listener, with their configuration.
#[derive(Debug, Clone)]
pub struct Site {
    /// The routes.
    pub router: Router,
    /// The trusted proxies and the base path.
    pub forwarding: Forwarding,
    /// The timeouts of clients.
    pub timeouts: Timeouts,
    /// Fires when the service begins to stop.
    pub draining: CancellationToken,
}
