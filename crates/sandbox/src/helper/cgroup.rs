//! A control group for a command. Root's processes are counted by nothing else.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rustix::process::{geteuid, getpid};

use super::limits::{MEMORY, TASKS};

/// A file of a group, and its limit.
type Limit = (&'static str, u64);

/// Where groups are made, and what is limited there: the two trees of the old kind, or the one of
/// the new.
const PLACES: [(&str, &[Limit]); 3] = [
    ("/sys/fs/cgroup/pids", &[("pids.max", TASKS)]),
    ("/sys/fs/cgroup/memory", &[("memory.limit_in_bytes", MEMORY)]),
    ("/sys/fs/cgroup", &[("pids.max", TASKS), ("memory.max", MEMORY)]),
];

/// Groups that this process, and so all that come from it, is in.
pub(super) struct Group {
    made: Vec<Made>,
}

struct Made {
    folder: PathBuf,
    /// The top of the tree, where this process goes before it ends: a group that somebody is in
    /// cannot be removed.
    top: PathBuf,
}

impl Group {
    /// Joins what groups can be made. A plain user has a limit of its own and needs none.
    pub(super) fn join() -> Self {
        // A keeper that was killed leaves its group, and its number may be given again.
        let name = format!("twostep-{}-{:08x}", getpid().as_raw_nonzero(), fastrand::u32(..));
        let places = if geteuid().is_root() { &PLACES[..] } else { &[] };
        let made = places
            .iter()
            .filter_map(|(place, limits)| Made::new(Path::new(place), &name, limits).ok());
        Self { made: made.collect() }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for made in &self.made {
            // A group that is not removed limits nobody.
            let _ = made.leave();
        }
    }
}

impl Made {
    fn new(place: &Path, name: &str, limits: &[Limit]) -> io::Result<Self> {
        let made = Self { top: place.to_owned(), folder: place.join(name) };
        fs::create_dir(&made.folder)?;
        // The new kind has its limits only where they are switched on. Where there is the old kind
        // alone, this may be a plain folder, in which no such file comes into being.
        let limited = limits
            .iter()
            .try_for_each(|(file, most)| set(&made.folder.join(file), &most.to_string()))
            .and_then(|()| enter(&made.folder));
        if let Err(error) = limited {
            fs::remove_dir(&made.folder)?;
            return Err(error);
        }
        Ok(made)
    }

    fn leave(&self) -> io::Result<()> {
        enter(&self.top)?;
        fs::remove_dir(&self.folder)
    }
}

fn enter(folder: &Path) -> io::Result<()> {
    set(&folder.join("cgroup.procs"), &getpid().as_raw_nonzero().to_string())
}

/// Writes to a file that the kernel has put there, and makes none.
fn set(file: &Path, value: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(file)?.write_all(value.as_bytes())
}

/// Whether a group that limits processes can be made.
pub(crate) fn can_limit() -> bool {
    let limits_tasks = |made: &Made| made.folder.join("pids.max").exists();
    Group::join().made.iter().any(limits_tasks)
}
