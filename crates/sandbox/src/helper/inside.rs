//! The second stage: gives up what a command must not have and becomes the shell.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{Signal, set_parent_process_death_signal, setsid};
use rustix::stdio::dup2_stdin;
use rustix::thread::set_no_new_privs;

use super::super::identity;
use super::{READY, Surroundings, calls, could_not, files, give_nothing_on, limits};

const SHELL: &str = "/bin/bash";
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Returns only if it failed, and says why.
pub(super) fn become_shell(surroundings: &Surroundings, command: &str) -> String {
    match prepare(surroundings) {
        Ok(()) => {
            let error = shell(surroundings, command).exec();
            format!("{SHELL} cannot be run: {error}")
        }
        Err(why) => why,
    }
}

fn prepare(surroundings: &Surroundings) -> Result<(), String> {
    give_nothing_on();
    // Away from the service's terminal, if there is one. Bubblewrap has done it already.
    let _ = setsid();
    // When memory is short, this goes before the service does.
    let _ = fs::write("/proc/self/oom_score_adj", "500");
    let nothing = File::open("/dev/null").map_err(could_not("no /dev/null"))?;
    refuse_others(surroundings)?;
    limits::set(surroundings.level)?;
    limits::drop_capabilities()?;
    set_no_new_privs(true).map_err(|error| format!("privileges cannot be fixed: {error}"))?;
    files::restrict(surroundings)?;
    calls::restrict(surroundings.level)?;
    // Should the keeper be killed, the shell goes as well. Last, because to give up rights undoes it.
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| format!("it cannot be tied to its keeper: {error}"))?;
    say_ready(&nothing)
}

/// What was mounted was found by its name, under which somebody may have put something else.
fn refuse_others(surroundings: &Surroundings) -> Result<(), String> {
    let workspace = surroundings.workspace();
    let names = surroundings.protected.iter().map(|name| workspace.join(name));
    let named = names.zip(surroundings.protected_as.iter().copied());
    for (place, expected) in
        [(workspace.to_owned(), surroundings.identity)].into_iter().chain(named)
    {
        let found = identity(&place).map_err(could_not("the workspace cannot be looked at"))?;
        if found != expected {
            return Err("the workspace was replaced while the command began".to_owned());
        }
    }
    Ok(())
}

/// The last word on the leash, which the command does not get.
fn say_ready(nothing: &File) -> Result<(), String> {
    let leash = io::stdin().as_fd().try_clone_to_owned().map_err(could_not("no leash"))?;
    File::from(leash).write_all(&READY).map_err(could_not("the leash is cut"))?;
    dup2_stdin(nothing).map_err(|error| format!("stdin cannot be closed: {error}"))
}

fn shell(surroundings: &Surroundings, command: &str) -> Command {
    let mut shell = Command::new(SHELL);
    shell
        .args(["-c", command])
        .env_clear()
        .env("PATH", SEARCH_PATH)
        .env("HOME", surroundings.temporary())
        .env("TMPDIR", surroundings.temporary())
        .env("LANG", "C.UTF-8")
        .env("TERM", "dumb")
        .current_dir(surroundings.workspace());
    shell
}
