//! The routes that a listener serves, and their configuration.

use axum::Router;
use tokio_util::sync::CancellationToken;

use super::timeouts::Timeouts;
use crate::http::server::forwarded::Forwarding;

/// What is served.
#[derive(Debug, Clone)]
pub struct Site {
    /// The routes.
    pub router: Router,
    /// What is believed of proxies before it.
    pub forwarding: Forwarding,
    /// How long clients may take.
    pub timeouts: Timeouts,
    /// Fires when the service begins to stop.
    pub draining: CancellationToken,
}
