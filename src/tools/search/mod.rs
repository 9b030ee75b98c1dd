//! What Glob and Grep share: the files beneath a folder of the workspace, as `rg --files` would
//! list them, with ripgrep's own matchers. The walk is ours: ripgrep's goes by paths, and so
//! follows a folder that is swapped for a link while it looks. Here every folder is opened
//! beneath the workspace's handle.

mod filter;
mod place;
mod queue;
mod rules;
mod walk;
mod watch;

pub(crate) use filter::Filter;
pub(crate) use place::Place;
pub(crate) use walk::{Seen, walk};
pub(crate) use watch::Watch;

/// Threads that one search uses.
pub(crate) const THREADS: usize = 2;

#[cfg(test)]
pub(crate) mod tests;
