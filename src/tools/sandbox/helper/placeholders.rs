//! Protected names of the workspace that are not there: only what exists can be mounted over, so
//! an empty folder stands in for each of them while the command runs.

use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;

use super::{Surroundings, could_not};

/// An empty folder that nobody may write to is one of ours.
const MODE: u32 = 0o555;
/// How often the folder is asked for, and how long between.
const TRIES: u32 = 40;
const PAUSE: Duration = Duration::from_millis(50);

/// What is put into the workspace for the time of a command.
pub(super) struct Placeholders {
    /// Locked, shared, by every command that relies on them.
    workspace: File,
    places: Vec<PathBuf>,
}

impl Placeholders {
    /// Puts one for each protected name that is missing.
    pub(super) fn put(surroundings: &Surroundings) -> Result<Self, String> {
        let workspace = File::open(&surroundings.workspace)
            .map_err(could_not("the workspace cannot be opened"))?;
        let mut places = Vec::new();
        if !surroundings.protected.is_empty() {
            lock(&workspace)?;
        }
        for name in &surroundings.protected {
            let place = surroundings.workspace.join(name);
            put(&place)?;
            places.push(place);
        }
        Ok(Self { workspace, places })
    }
}

impl Drop for Placeholders {
    /// Takes them away again, unless another command relies on them; then that one does.
    fn drop(&mut self) {
        if flock(&self.workspace, FlockOperation::NonBlockingLockExclusive).is_err() {
            return;
        }
        for place in self.places.iter().filter(|place| is_ours(place)) {
            // One that is not empty is not ours any more.
            let _ = fs::remove_dir(place);
        }
    }
}

/// Waits for a command that is just taking its own away.
fn lock(workspace: &File) -> Result<(), String> {
    for _ in 0..TRIES {
        if flock(workspace, FlockOperation::NonBlockingLockShared).is_ok() {
            return Ok(());
        }
        sleep(PAUSE);
    }
    Err("the workspace is locked by another program".to_owned())
}

fn put(place: &Path) -> Result<(), String> {
    match place.symlink_metadata() {
        Ok(metadata) if metadata.is_symlink() => {
            // A mount would be on what it leads to, and the link could be replaced.
            Err(format!("{} is a link, and cannot be protected", place.display()))
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => DirBuilder::new()
            .mode(MODE)
            .create(place)
            .map_err(could_not("a protected name cannot be kept")),
        Err(error) => Err(could_not("a protected name cannot be looked at")(error)),
    }
}

fn is_ours(place: &Path) -> bool {
    place.symlink_metadata().is_ok_and(|metadata| {
        metadata.is_dir() && metadata.mode() & 0o777 == MODE && metadata.uid() == geteuid().as_raw()
    })
}
