//! The worker: claims runs, drives them and keeps their leases.
//!
//! `claim` finds the runs and `run` drives each of them. The driver calls `model_call`, `tool_round`,
//! `sub_agents` and `compaction`, which return values and never call the driver.

mod claim;
mod compaction;
mod model_call;
#[cfg(test)]
mod model_check;
mod run;
mod services;
mod sub_agents;
mod time;
mod titles;
mod tool_round;
mod transcript;
mod workspace_gc;
mod workspace_sizes;

pub use claim::node::Node;
pub use claim::worker::{Worker, WorkerParts};
pub use transcript::{sent_before, sent_messages};
