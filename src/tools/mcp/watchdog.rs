//! The watchdog that terminates an MCP server program if the service is killed.
//!
//! `watchdog.sh` runs as `sh -c SCRIPT leash GROUP`. Its standard input is a pipe whose write end
//! only the service holds, so the kernel closes it however the service ends. The script then
//! signals the process group as the service would. The parent death signal of Linux is not
//! sufficient: it is sent when the starting thread ends, and only to the program itself.

use std::io;
use std::process::Stdio;

use rustix::process::Pid;
use tokio::process::{Child, Command};

/// The shell that runs the script.
const SHELL: &str = "/bin/sh";
const SEARCH_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The watchdog of a process group. Dropping it stops the watch.
#[derive(Debug)]
pub(super) struct Watchdog {
    /// Killed on drop. Its pipe therefore closes while it runs only if the service has died.
    _process: Child,
}

impl Watchdog {
    /// Starts the watchdog in its own process group, so that signals to the service's group do
    /// not reach it.
    pub(super) fn start(group: Pid) -> io::Result<Self> {
        let process = Command::new(SHELL)
            .args(["-c", include_str!("watchdog.sh"), "leash"])
            .arg(group.as_raw_nonzero().to_string())
            .env_clear()
            .env("PATH", SEARCH_PATH)
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        Ok(Self { _process: process })
    }
}
