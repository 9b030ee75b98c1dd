//! The tool calls of one reply: permissions, execution, ledger, suspension.

mod close;
pub(in crate::worker) mod execute;
mod found_tools;
pub(in crate::worker) mod images;
pub(in crate::worker) mod ledger;
mod permission_decision;
mod permission_gate;
pub(in crate::worker) mod plan;
pub(in crate::worker) mod quick_calls;
mod sampling;
mod single_call;
mod spans;
mod start;
mod suspend;
pub(in crate::worker) mod url_history;
mod while_running;
mod workspace_quota;
