//! The tool calls of one reply.

pub(in crate::worker) mod execute;
pub(in crate::worker) mod permission_gate;
pub(in crate::worker) mod plan;
pub(in crate::worker) mod sampling;
pub(in crate::worker) mod suspend;
