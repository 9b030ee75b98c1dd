//! Clients that break the protocol, or bend it: each is refused and closed, and nobody else is
//! kept waiting.

mod attack;
mod http1;
mod http2;

use std::time::Duration;

use serde_json::Value;
use twostep::http::Timeouts;

use crate::support::{Setup, TestApp, replies, says};

/// What the service grants in these tests.
const TIMEOUTS: Timeouts = Timeouts {
    head: Duration::from_secs(1),
    body: Duration::from_millis(1500),
    idle: Duration::from_secs(2),
    write: Duration::from_secs(1),
};
/// All of them one after the other, and what a busy machine and a farewell may add.
const PATIENCE: Duration = Duration::from_secs(20);

async fn app() -> TestApp {
    let setup = Setup { timeouts: TIMEOUTS, ..Setup::default() };
    TestApp::start_with(replies(&[says("Yes.")]), setup).await
}

/// How many sessions there are.
async fn sessions(app: &TestApp) -> usize {
    let page: Value = app.get("/v1/sessions?limit=200").send().await.unwrap().json().await.unwrap();
    page["data"].as_array().unwrap().len()
}
