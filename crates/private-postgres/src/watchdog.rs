//! A server that ends with its owner, however the owner ends.
//!
//! `watchdog.sh` is started as `sh -c SCRIPT NAME CLUSTER DOOMED DOOMED POSTGRES ARGS...`, its
//! standard input a pipe whose other side only the owner holds. The shell becomes the server, so
//! the owner's child is the postmaster itself. Before that it leaves a helper behind, detached so
//! that the postmaster never has a child it does not know. The helper waits for the pipe's end of
//! file: the kernel closes the owner's side whatever kills the owner. It then asks the server for
//! a fast shutdown, waits until it is gone, and removes the two DOOMED (directories, empty for
//! none).
//!
//! The helper signals only the process that the cluster's own `postmaster.pid` names: a number
//! that went to another program in the meantime is left alone. A vanished `postmaster.pid` is the
//! end as well as a vanished process: an owner that has not waited for its child leaves a zombie,
//! which still answers. The helper runs as the server's user, in its process group, so that ^C in
//! the owner's terminal does not reach it.

use std::path::Path;
use std::process::{Command, Stdio};

use super::account::Account;

/// The shell that runs the script.
pub(super) const SHELL: &str = "/bin/sh";

/// The command that runs `postgres` on `cluster` under the watchdog; the caller adds the server's
/// arguments. Its standard input is the leash: never written, closed by our end.
pub(super) fn command(
    account: Account,
    postgres: &Path,
    cluster: &Path,
    doomed: [Option<&Path>; 2],
) -> Command {
    let mut command = account.command(Path::new(SHELL));
    command.args(["-c", include_str!("watchdog.sh"), "postgres"]).arg(cluster);
    for dir in doomed {
        command.arg(dir.unwrap_or(Path::new("")));
    }
    command.arg(postgres).stdin(Stdio::piped());
    command
}
