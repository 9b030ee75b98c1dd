//! One run, from its claim until it settles or is released.
//!
//! [`driver`] calls the other parts of the worker, which return values to it. The other files
//! hold what those parts share: the facts of the run, its progress, its slot, its signals, the
//! writer of its steps.

mod begin;
pub(in crate::worker) mod context;
pub(in crate::worker) mod driver;
mod ending;
pub(in crate::worker) mod history_memory;
mod interrupted;
pub(in crate::worker) mod messages;
mod outcome;
pub(in crate::worker) mod pending_step;
pub(in crate::worker) mod progress;
mod resume;
pub(in crate::worker) mod run_model;
pub(in crate::worker) mod signals;
pub(in crate::worker) mod slot;
pub(in crate::worker) mod spans;
pub(in crate::worker) mod state;
pub(in crate::worker) mod step_writer;
mod step_writing;
pub(in crate::worker) mod stop_cause;
mod tool_lists;
