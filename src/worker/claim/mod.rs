//! Claiming runs and keeping their leases.

pub(in crate::worker) mod active_runs;
pub(in crate::worker) mod give_up;
pub(in crate::worker) mod leases;
pub(in crate::worker) mod node;
pub(in crate::worker) mod slots;
