//! The second stage: drops privileges and becomes the shell.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::fs::Mode;
use rustix::process::{Signal, set_parent_process_death_signal, setsid, umask};
use rustix::stdio::dup2_stdin;
use rustix::thread::set_no_new_privs;

use super::super::identity;
use super::{Parameters, READY, calls, close_inherited_on_exec, could_not, files, limits};

const SHELL: &str = "/bin/bash";
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Drops privileges and replaces this process by the shell. Returns only on failure, with the
/// reason.
pub(super) fn exec_shell(parameters: &Parameters, command: &str) -> String {
    match prepare(parameters) {
        Ok(()) => {
            let error = shell(parameters, command).exec();
            format!("{SHELL} cannot be run: {error}")
        }
        Err(why) => why,
    }
}

fn prepare(parameters: &Parameters) -> Result<(), String> {
    close_inherited_on_exec();
    // Detaches from the service's terminal, if there is one. Bubblewrap has done it already.
    let _ = setsid();
    // When memory is short, the kernel kills this process before the service.
    let _ = fs::write("/proc/self/oom_score_adj", "500");
    let nothing = File::open("/dev/null").map_err(could_not("no /dev/null"))?;
    check_identities(parameters)?;
    if parameters.is_private {
        umask(Mode::RWXG | Mode::RWXO);
    }
    limits::set(parameters.level)?;
    limits::drop_capabilities()?;
    set_no_new_privs(true).map_err(|error| format!("no_new_privs cannot be set: {error}"))?;
    files::restrict(parameters)?;
    calls::restrict(parameters.level)?;
    // The shell dies with the keeper. Last, because a change of credentials resets it.
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| format!("the parent death signal cannot be set: {error}"))?;
    signal_ready(&nothing)
}

/// Verifies the identity of the mounted folders: another process can have replaced them by name.
fn check_identities(parameters: &Parameters) -> Result<(), String> {
    let workspace = parameters.workspace();
    let names = parameters.protected.iter().map(|name| workspace.join(name));
    let named = names.zip(parameters.protected_as.iter().copied());
    for (place, expected) in [(workspace.to_owned(), parameters.identity)].into_iter().chain(named)
    {
        let found = identity(&place).map_err(could_not("the workspace cannot be inspected"))?;
        if found != expected {
            return Err("the workspace was replaced while the command started".to_owned());
        }
    }
    Ok(())
}

/// Writes the ready byte to the control socket and closes it for the command.
fn signal_ready(nothing: &File) -> Result<(), String> {
    let control =
        io::stdin().as_fd().try_clone_to_owned().map_err(could_not("no control socket"))?;
    File::from(control).write_all(&READY).map_err(could_not("the control socket is closed"))?;
    dup2_stdin(nothing).map_err(|error| format!("stdin cannot be closed: {error}"))
}

fn shell(parameters: &Parameters, command: &str) -> Command {
    let mut shell = Command::new(SHELL);
    shell
        .args(["-c", command])
        .env_clear()
        .env("PATH", SEARCH_PATH)
        .env("HOME", parameters.temporary())
        .env("TMPDIR", parameters.temporary())
        .env("LANG", "C.UTF-8")
        .env("TERM", "dumb")
        .current_dir(parameters.workspace());
    shell
}
