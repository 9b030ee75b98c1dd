//! File search, shared by Glob and Grep. Lists the files under a folder of the workspace as `rg
//! --files --no-require-git` does, with ripgrep's own matchers, and also the files in folders that
//! the glob names.
//!
//! The directory walk is not ripgrep's. Ripgrep walks by path, and would follow a folder that is
//! replaced by a symbolic link during the search. This walk opens every folder relative to the
//! workspace's handle.

mod filter;
mod named_folders;
mod origin;
mod queue;
mod rules;
mod walk;
mod watch;

pub(crate) use filter::Filter;
pub(crate) use origin::SearchOrigin;
pub(crate) use walk::{WalkedFile, walk};
pub(crate) use watch::Watch;

/// The number of threads of one search.
pub(crate) const THREADS: usize = 2;

#[cfg(test)]
pub(crate) mod tests;
