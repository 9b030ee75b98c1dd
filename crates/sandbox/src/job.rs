//! What is run, and how it ended.

use std::path::Path;
use std::time::Duration;

use super::Output;

/// The longest command. The kernel takes 128 KiB for one argument of a program.
pub(super) const MAX_COMMAND: usize = 100 * 1024;

/// A command and what it needs to know.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// For `bash -c`.
    pub command: &'a str,
    /// The folder that it may change.
    pub workspace: &'a Path,
    /// Which folder that is: its device and inode. Another one under its name is refused.
    pub identity: (u64, u64),
    /// Names in the workspace that it must not change. Held at the full level; the basic level
    /// takes no workspace that others use.
    pub protected: &'a [&'a str],
    /// When it is ended.
    pub deadline: Duration,
}

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Why it ended.
    pub ending: Ending,
    /// What it printed until then.
    pub output: Output,
}

/// Why a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this status; 128 and more is a signal, as the shell counts.
    Exited(i32),
    /// It was ended at its deadline.
    TimedOut,
    /// It was ended because nobody waits for it.
    Stopped,
}
