//! Sub-agents: calls that start a run in a session of its own.

pub(in crate::worker) mod cancel;
pub(in crate::worker) mod priority;
pub(in crate::worker) mod relay;
pub(in crate::worker) mod start;
pub(in crate::worker) mod wait;
