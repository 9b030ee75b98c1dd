//! The worker of a process: which runs it claims, and how it keeps their leases.

mod active_runs;
mod give_up;
pub(in crate::worker) mod isolation;
mod leases;
pub(in crate::worker) mod lost_leases;
pub(in crate::worker) mod node;
mod slots;
mod sweep;
pub(in crate::worker) mod worker;
