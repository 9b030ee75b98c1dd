//! A tool-using agent behind one HTTP endpoint.
//!
//! A client posts a message to a session; a worker runs the two-step tool loop against the model
//! (ask, run the tools it asks for, hand the results back, until it answers); every block of the
//! conversation is kept in Postgres; progress streams over SSE.

pub mod agent;
pub mod app;
pub mod bus;
pub mod cli;
pub mod config;
pub mod domain;
pub mod faults;
pub mod http;
pub mod metrics;
pub mod model;
pub mod outbound;
pub mod service;
pub mod spans;
pub mod store;
pub mod telemetry;
pub mod tokens;
pub mod tools;
pub mod webhooks;
pub mod worker;
