//! The harness of the black-box tests: each test has its own service and client.

mod app;
mod browser_policy;
mod decisions;
mod documented;
pub(crate) mod final_check;
mod identity;
pub(crate) mod kept_output;
mod keys;
#[path = "../../support/machine.rs"]
pub(crate) mod machine;
mod many_events;
pub(crate) mod media;
pub(crate) mod model_server;
mod notified;
#[path = "../../support/postgres.rs"]
mod postgres;
mod problem;
mod program;
mod proxy;
mod raw;
mod refusal;
mod remaining_rows;
mod script;
mod second_service;
mod session;
mod setup;
mod sse;
mod tools;
pub(crate) mod upstream;
mod verification;

pub(crate) use app::TestApp;
pub(crate) use decisions::{BELL, asks, asks_for_approval_within, calls_as, pending};
pub(crate) use identity::{
    AUDIENCE, Identity, KeysResponse, Signer, client_bearing, encoded, seconds_from_now,
    signed_with_secret, trusting, unsigned,
};
pub(crate) use keys::{client_with, keys_needed};
pub(crate) use many_events::fill_with_events;
pub(crate) use notified::{HALF_OF_RENEWAL_INTERVAL, HALF_OF_SWEEP_INTERVAL, assert_notified};
pub(crate) use postgres::{TestDatabase, database};
pub(crate) use problem::problem;
pub(crate) use program::{
    PROGRAM, Program, binary, binary_at, binary_logging_to, binary_of_few_files, data_dir, outcome,
};
pub(crate) use proxy::{Closing, Proxy};
pub(crate) use raw::{RawStream, exchange};
pub(crate) use refusal::{Refusal, assert_refused, invalid, raw, refusal};
pub(crate) use remaining_rows::tables_with;
pub(crate) use script::{calls, hangs_first, replies, says, stops_short};
pub(crate) use second_service::SecondService;
pub(crate) use session::Session;
pub(crate) use setup::Setup;
pub(crate) use sse::{EventStream, Received, durable};
pub(crate) use tools::Endless;
pub(crate) use upstream::{Upstream, asked};

/// The system prompt of test sessions.
pub(crate) const SYSTEM: &str = "You are the test desk. Be brief.";
