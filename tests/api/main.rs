//! Black-box tests: a real socket, a real Postgres, and a scripted model that refuses every
//! request that the real one would refuse.
#![cfg(test)]

mod bad_input;
mod cancelling;
mod commands;
mod layers;
mod loop_behaviour;
mod model_failures;
mod openapi;
mod posting;
mod readme;
mod streams;
mod support;
mod takeover;
mod tool_results;
