//! The calls that a worker executes without a record in the ledger: those of tools without effects.
//! Their state follows from the order of execution, so that no statement is spent on it.

use crate::domain::tool::{CallState, PARALLEL_CALLS, ToolClass};
use crate::tools::Registry;

/// Returns the positions of the planned calls of a round that a worker executes now. Calls without
/// effects start together, after the calls before them have ended.
pub(super) fn executing<'a>(
    tools: &Registry,
    calls: impl Iterator<Item = (&'a str, CallState)>,
) -> Vec<usize> {
    let mut executing = Vec::new();
    for (position, (name, state)) in calls.enumerate() {
        match state {
            CallState::Done | CallState::Failed | CallState::Interrupted | CallState::Denied => {}
            // It runs alone, or together with other sub-agents.
            CallState::Started => break,
            CallState::Planned => {
                let is_parallel = tools.runs_in_parallel(name);
                let may_run =
                    executing.is_empty() || is_parallel && executing.len() < PARALLEL_CALLS;
                if tools.class(name) != ToolClass::Pure || !may_run {
                    break;
                }
                executing.push(position);
                if !is_parallel {
                    break;
                }
            }
        }
    }
    executing
}
