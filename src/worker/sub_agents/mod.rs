//! Sub-agents: calls that start a run in a session of its own and wait for its result.
//!
//! Each call starts one sub-agent. A later attempt of the run finds the sub-agents that an earlier
//! one started.

pub(in crate::worker) mod cancel;
mod find;
mod relay;
mod session_quota;
mod start;
mod wait;

use crate::tools::ToolContext;
use crate::worker::run::state::RunState;

/// The sub-agents of one round.
#[derive(Debug)]
pub(in crate::worker) struct SubAgents<'r, 'a> {
    pub(in crate::worker) state: &'r mut RunState<'a>,
    pub(in crate::worker) context: &'r ToolContext,
}
