//! Commands and their outcomes.

use std::path::Path;
use std::time::Duration;

use super::Output;

/// Maximum length of a command in bytes. The kernel allows 128 KiB for one argument.
pub(super) const MAX_COMMAND: usize = 100 * 1024;

/// A command and its parameters.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// The argument of `bash -c`.
    pub command: &'a str,
    /// The folder that the command can write to.
    pub workspace: &'a Path,
    /// The device and inode of that folder. Another folder under its name is refused.
    pub identity: (u64, u64),
    /// Names in the workspace that the command cannot write to. The full level enforces them; the
    /// basic level refuses a workspace that other programs use.
    pub protected: &'a [&'a str],
    /// The time limit.
    pub deadline: Duration,
}

/// The outcome of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The reason of its end.
    pub ending: Ending,
    /// Its output.
    pub output: Output,
}

/// The reason of a command's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It exited with this status. A status of 128 and more is a signal, as in the shell.
    Exited(i32),
    /// Its deadline passed.
    TimedOut,
    /// It was cancelled.
    Stopped,
}
