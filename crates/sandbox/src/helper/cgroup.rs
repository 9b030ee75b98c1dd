//! A control group for a command. For root it is the only limit on the number of processes.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rustix::process::{geteuid, getpid};

use super::limits::{MEMORY, TASKS};

/// A file of a control group, and the limit to write to it.
type Limit = (&'static str, u64);

/// The folders of the controllers and their limits: the two hierarchies of version 1, and the one
/// of version 2.
const PLACES: [(&str, &[Limit]); 3] = [
    ("/sys/fs/cgroup/pids", &[("pids.max", TASKS)]),
    ("/sys/fs/cgroup/memory", &[("memory.limit_in_bytes", MEMORY)]),
    ("/sys/fs/cgroup", &[("pids.max", TASKS), ("memory.max", MEMORY)]),
];

/// The control groups of this process and its descendants.
pub(super) struct Group {
    created: Vec<CreatedGroup>,
}

struct CreatedGroup {
    folder: PathBuf,
    /// The root of the hierarchy. This process moves there before it ends, because a group with
    /// processes cannot be removed.
    top: PathBuf,
}

impl Group {
    /// Creates and joins a group in each hierarchy that allows it. An unprivileged user has a limit
    /// of its own and needs none.
    pub(super) fn join() -> Self {
        // A killed keeper leaves its group, and its process id can be reused.
        let name = format!("twostep-{}-{:08x}", getpid().as_raw_nonzero(), fastrand::u32(..));
        let places = if geteuid().is_root() { &PLACES[..] } else { &[] };
        let created = places
            .iter()
            .filter_map(|(place, limits)| CreatedGroup::new(Path::new(place), &name, limits).ok());
        Self { created: created.collect() }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for created in &self.created {
            // A remaining group limits no process.
            let _ = created.leave();
        }
    }
}

impl CreatedGroup {
    fn new(place: &Path, name: &str, limits: &[Limit]) -> io::Result<Self> {
        let created = Self { top: place.to_owned(), folder: place.join(name) };
        fs::create_dir(&created.folder)?;
        // Version 2 has its limits only where they are enabled. With version 1 alone, this folder
        // can be an ordinary one, in which no such file appears.
        let limited = limits
            .iter()
            .try_for_each(|(file, most)| set(&created.folder.join(file), &most.to_string()))
            .and_then(|()| enter(&created.folder));
        if let Err(error) = limited {
            fs::remove_dir(&created.folder)?;
            return Err(error);
        }
        Ok(created)
    }

    fn leave(&self) -> io::Result<()> {
        enter(&self.top)?;
        fs::remove_dir(&self.folder)
    }
}

fn enter(folder: &Path) -> io::Result<()> {
    set(&folder.join("cgroup.procs"), &getpid().as_raw_nonzero().to_string())
}

/// Writes to a file that the kernel provides. Does not create it.
fn set(file: &Path, value: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(file)?.write_all(value.as_bytes())
}

/// True if a group that limits processes can be created.
pub(crate) fn can_limit() -> bool {
    let limits_tasks = |created: &CreatedGroup| created.folder.join("pids.max").exists();
    Group::join().created.iter().any(limits_tasks)
}
