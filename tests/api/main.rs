//! Black-box tests: a real socket, a real Postgres, and a scripted model that refuses every
//! request that the real one would refuse.
#![cfg(test)]

mod layers;
mod loop_behaviour;
mod readme;
mod support;
mod takeover;
mod tool_results;
