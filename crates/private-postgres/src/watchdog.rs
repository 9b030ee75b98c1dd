//! A watchdog that stops the server when its owner ends, for any reason.
//!
//! `watchdog.sh` runs as `sh -c SCRIPT NAME CLUSTER FOLDER FOLDER POSTGRES ARGS...`. Its standard
//! input is a pipe whose write end only the owner holds. The shell becomes the server with `exec`,
//! so the owner's child is the postmaster. Before that, it starts a helper, detached so that the
//! postmaster has no unknown child. The helper waits for the end of file on the pipe: the kernel
//! closes the write end when the owner ends, even by SIGKILL. The helper then requests a fast
//! shutdown, waits for the server's end, and removes the two FOLDERs (empty for none). A line on the
//! pipe ends the helper instead: the owner starts the server again, in the same folders.
//!
//! The helper signals only the process that the cluster's own `postmaster.pid` names, so it never
//! signals another program with a reused process id. It treats a missing `postmaster.pid` as the
//! end of the server, as well as a missing process: if the owner has not waited for its child, a
//! zombie remains, which still accepts signals. The helper runs as the server's user in its process
//! group, so Ctrl-C in the owner's terminal does not reach it.

use std::path::Path;
use std::process::{Command, Stdio};

use super::account::Account;

/// The shell that runs the script.
pub(super) const SHELL: &str = "/bin/sh";

/// Returns the command that runs `postgres` on `cluster` under the watchdog. The caller adds the
/// server's arguments. The command's standard input is the pipe of the watchdog: closing it stops the
/// server.
pub(super) fn command(
    account: Account,
    postgres: &Path,
    cluster: &Path,
    dirs_to_remove: [Option<&Path>; 2],
) -> Command {
    let mut command = account.command(Path::new(SHELL));
    command.args(["-c", include_str!("watchdog.sh"), "postgres"]).arg(cluster);
    for dir in dirs_to_remove {
        command.arg(dir.unwrap_or(Path::new("")));
    }
    command.arg(postgres).stdin(Stdio::piped());
    command
}
