//! One run from its claim until it settles or is released.

pub(in crate::worker) mod database_retry;
pub(in crate::worker) mod driver;
pub(in crate::worker) mod resume;
pub(in crate::worker) mod spans;
pub(in crate::worker) mod step_writer;
pub(in crate::worker) mod stop_cause;
pub(in crate::worker) mod tool_lists;
