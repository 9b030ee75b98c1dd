//! How much of the machine a command gets.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use rustix::process::{Resource, Rlimit, getrlimit, getuid, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
};

use super::Level;

/// Processes and threads of one command.
pub(super) const TASKS: u64 = 256;
/// Bytes of memory: of one process by its limit, of all by a control group where there is one.
pub(super) const MEMORY: u64 = 2 * GIB;
const GIB: u64 = 1024 * 1024 * 1024;

/// Sets the limits for this process, and those that come from it.
pub(super) fn set(level: Level) -> Result<(), String> {
    let tasks = match level {
        // A user namespace counts from nothing.
        Level::Full => TASKS,
        // Here the kernel counts all that the user has.
        Level::Basic => TASKS + tasks_of_ours(),
    };
    for (resource, most) in [
        (Resource::Nproc, tasks),
        (Resource::Data, MEMORY),
        (Resource::Fsize, GIB),
        (Resource::Nofile, 1024),
        (Resource::Core, 0),
        (Resource::Memlock, 64 * 1024),
    ] {
        // A limit that is lower already stays: without a right of root it can only go down.
        let most = getrlimit(resource).maximum.map_or(most, |now| most.min(now));
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        setrlimit(resource, limit)
            .map_err(|error| format!("{resource:?} cannot be limited: {error}"))?;
    }
    Ok(())
}

/// Processes and threads of this user.
fn tasks_of_ours() -> u64 {
    let uid = getuid().as_raw();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ours = processes.filter(|entry| entry.metadata().is_ok_and(|data| data.uid() == uid));
    ours.filter_map(|process| fs::read_dir(process.path().join("task")).ok())
        .map(|tasks| tasks.count() as u64)
        .sum()
}

/// Root without its rights is a user like others, but for the files that are root's.
pub fn drop_capabilities() -> Result<(), String> {
    let failed = |error| format!("capabilities cannot be dropped: {error}");
    if capabilities(None).map_err(failed)?.permitted.is_empty() {
        return Ok(());
    }
    for capability in CapabilitySet::all().iter() {
        // Those that this kernel does not know are in no set.
        if capability_is_in_bounding_set(capability).unwrap_or(false) {
            remove_capability_from_bounding_set(capability).map_err(failed)?;
        }
    }
    clear_ambient_capability_set().map_err(failed)?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
        .map_err(failed)
}
