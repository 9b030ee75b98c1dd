//! The resource limits of a command.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, getuid, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
};

use super::Level;

/// Maximum number of processes and threads of one command.
pub(super) const TASKS: u64 = 256;
/// Maximum memory in bytes: of one process by its limit, of all processes by a control group where
/// there is one.
pub(super) const MEMORY: u64 = 2 * GIB;
const GIB: u64 = 1024 * 1024 * 1024;

/// Sets the limits for this process and its descendants.
pub(super) fn set(level: Level) -> Result<(), String> {
    let tasks = match level {
        // A new user namespace counts from zero.
        Level::Full => TASKS,
        // Without one the kernel counts all tasks of the user.
        Level::Basic => TASKS + own_task_count(),
    };
    for (resource, most) in [
        (Resource::Nproc, tasks),
        (Resource::Data, MEMORY),
        (Resource::Fsize, GIB),
        (Resource::Nofile, 1024),
        (Resource::Core, 0),
        (Resource::Memlock, 64 * 1024),
    ] {
        // A lower hard limit stays: only root can raise it.
        let most = getrlimit(resource).maximum.map_or(most, |now| most.min(now));
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        setrlimit(resource, limit)
            .map_err(|error| format!("{resource:?} cannot be limited: {error}"))?;
    }
    Ok(())
}

/// Returns the number of processes and threads of this user.
fn own_task_count() -> u64 {
    let uid = getuid().as_raw();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    // The entry of a process that protects its memory belongs to root, so its owner proves nothing.
    let is_ours = |entry: &fs::DirEntry| {
        let status = fs::read_to_string(entry.path().join("status"));
        status.is_ok_and(|status| real_user(&status) == Some(uid))
    };
    let ours = processes.filter(is_ours);
    ours.filter_map(|process| fs::read_dir(process.path().join("task")).ok())
        .map(|tasks| tasks.count() as u64)
        .sum()
}

/// The real user id in the text of `/proc/PID/status`.
fn real_user(status: &str) -> Option<u32> {
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    ids.split_whitespace().next()?.parse().ok()
}

/// Drops all capabilities. Root without capabilities has the rights of any other user, except for
/// files that root owns.
///
/// # Errors
///
/// Returns the reason if the kernel refuses the change.
pub fn drop_capabilities() -> Result<(), String> {
    let failed = |error| format!("capabilities cannot be dropped: {error}");
    if capabilities(None).map_err(failed)?.permitted.is_empty() {
        return Ok(());
    }
    for capability in CapabilitySet::all().iter() {
        // Capabilities that this kernel does not know are in no set.
        if capability_is_in_bounding_set(capability).unwrap_or(false) {
            remove_capability_from_bounding_set(capability).map_err(failed)?;
        }
    }
    clear_ambient_capability_set().map_err(failed)?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
        .map_err(failed)
}
