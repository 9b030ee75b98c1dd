//! Black-box tests: a real socket, a real Postgres, and a scripted model that refuses every
//! request that the real one would refuse.
#![cfg(test)]
#![expect(
    clippy::disallowed_methods,
    reason = "a test waits for what it spawns, and its environment is its own"
)]

mod access;
mod adapters;
mod agents;
mod approvals;
mod cli;
mod conversations;
mod documentation;
mod faults;
mod layers;
mod mcp;
mod messages;
mod models;
mod page;
mod proxies;
mod requests;
mod runs;
mod sessions;
mod streams;
mod sub_agents;
mod support;
mod telemetry;
mod tools;
mod webhooks;
