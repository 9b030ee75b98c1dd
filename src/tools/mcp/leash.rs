//! What ends a program whose service was killed and could not end it.
//!
//! `leash.sh` is started as `sh -c SCRIPT leash GROUP`, its standard input a pipe whose other side
//! only the service holds: the kernel closes it whatever ends the service. The script then does
//! what the service would have done. The death signal that the kernel offers would not do: it is
//! sent when the thread ends that started the program, and to the program alone.

use std::io;
use std::process::Stdio;

use rustix::process::Pid;
use tokio::process::{Child, Command};

/// The shell that runs the script.
const SHELL: &str = "/bin/sh";
const SEARCH_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Watches over a group of processes until it is dropped.
#[derive(Debug)]
pub(super) struct Leash {
    /// Killed when it is dropped, so that it hears of the end of its pipe only if we are gone.
    _watching: Child,
}

impl Leash {
    /// Begins to watch, in a group of its own, so that what ends the service spares it.
    pub(super) fn on(group: Pid) -> io::Result<Self> {
        let watching = Command::new(SHELL)
            .args(["-c", include_str!("leash.sh"), "leash"])
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
        Ok(Self { _watching: watching })
    }
}
