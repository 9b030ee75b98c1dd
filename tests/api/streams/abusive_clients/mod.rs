//! Clients that violate or abuse the protocol: their connections are closed, and other clients are
//! not delayed.

mod attack;
mod http1;
mod http2;

use std::time::Duration;

use serde_json::Value;
use twostep::http::Timeouts;

use crate::support::{Setup, TestApp, replies, says};

/// The time limits of the service in these tests.
const TIMEOUTS: Timeouts = Timeouts {
    head: Duration::from_secs(1),
    body: Duration::from_millis(1500),
    idle: Duration::from_secs(2),
    write: Duration::from_secs(1),
};
/// The sum of the time limits, with a reserve for a busy machine and for closing the connection.
const CLOSED_WITHIN: Duration = Duration::from_secs(20);

async fn app() -> TestApp {
    let setup = Setup { timeouts: TIMEOUTS, ..Setup::default() };
    TestApp::start_with(replies(&[says("Yes.")]), setup).await
}

/// Returns the number of sessions.
async fn count_sessions(app: &TestApp) -> usize {
    let page: Value = app.get("/v1/sessions?limit=200").send().await.unwrap().json().await.unwrap();
    page["data"].as_array().unwrap().len()
}
