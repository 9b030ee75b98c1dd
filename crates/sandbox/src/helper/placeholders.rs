//! Protected names of the workspace that are not there: only what exists can be mounted over, so
//! an empty folder stands in for each of them while the command runs.
//!
//! All of it beneath the folder's handle: its name may lead elsewhere a moment later.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, ResolveFlags, Stat, flock, fstat,
    mkdirat, openat2, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::Surroundings;

/// An empty folder that nobody may write to is one of ours.
const MODE: u32 = 0o555;
/// How often the folder is asked for, and how long between.
const TRIES: u32 = 40;
const PAUSE: Duration = Duration::from_millis(50);

/// What is put into the workspace for the time of a command.
pub(super) struct Placeholders {
    /// Locked, shared, by every command that relies on them.
    workspace: File,
    places: Vec<(String, Stat)>,
}

impl Placeholders {
    /// Puts one for each protected name that is missing.
    pub(super) fn put(surroundings: &Surroundings) -> Result<Self, String> {
        let workspace = open(surroundings)?;
        if !surroundings.protected.is_empty() {
            lock(&workspace)?;
        }
        // From here on what has been put is taken away again, also if the next one fails.
        let mut placeholders = Self { workspace, places: Vec::new() };
        for name in &surroundings.protected {
            let stat = put(&placeholders.workspace, name)?;
            placeholders.places.push((name.clone(), stat));
        }
        Ok(placeholders)
    }

    /// The devices and inodes of what stands under the protected names.
    pub(super) fn identities(&self) -> Vec<(u64, u64)> {
        self.places.iter().map(|(_, stat)| identity(stat)).collect()
    }
}

impl Drop for Placeholders {
    /// Takes them away again, unless another command relies on them; then that one does.
    fn drop(&mut self) {
        if flock(&self.workspace, FlockOperation::NonBlockingLockExclusive).is_err() {
            return;
        }
        for (name, _) in &self.places {
            if look(&self.workspace, name).is_ok_and(|stat| is_ours(&stat)) {
                // One that is not empty is not ours any more.
                let _ = unlinkat(&self.workspace, name, AtFlags::REMOVEDIR);
            }
        }
    }
}

/// The folder that the service meant, and no other.
fn open(surroundings: &Surroundings) -> Result<File, String> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened: Result<OwnedFd, Errno> = openat2(
        CWD,
        &surroundings.workspace,
        flags,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    );
    let workspace = opened.map_err(could_not("the workspace cannot be opened"))?;
    let stat = fstat(&workspace).map_err(could_not("the workspace cannot be looked at"))?;
    if identity(&stat) != surroundings.identity {
        return Err("the workspace was replaced while the command began".to_owned());
    }
    Ok(workspace.into())
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

fn put(workspace: &File, name: &str) -> Result<Stat, String> {
    let looked = match look(workspace, name) {
        Err(Errno::NOENT) => {
            make(workspace, name).map_err(could_not("a protected name cannot be kept"))?;
            look(workspace, name)
        }
        looked => looked,
    };
    let stat = looked.map_err(could_not("a protected name cannot be looked at"))?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
        // A mount would be on what it leads to, and the link could be replaced.
        return Err(format!("{name} is a link, and cannot be protected"));
    }
    Ok(stat)
}

fn make(workspace: &File, name: &str) -> Result<(), Errno> {
    match mkdirat(workspace, name, Mode::from_raw_mode(MODE)) {
        // Another command of this workspace, which began at the same time, was faster.
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error),
    }
}

fn look(workspace: &File, name: &str) -> Result<Stat, Errno> {
    statat(workspace, name, AtFlags::SYMLINK_NOFOLLOW)
}

fn is_ours(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
        && stat.st_mode & 0o777 == MODE
        && stat.st_uid == geteuid().as_raw()
}

fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

fn could_not(what: &'static str) -> impl FnOnce(Errno) -> String {
    move |error| format!("{what}: {error}")
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn of_two_commands_that_begin_together_one_makes_the_placeholder_of_both() {
        let folder = TempDir::new().unwrap();
        let workspace = File::open(folder.path()).unwrap();
        let missing = look(&workspace, ".git").map(|stat| is_ours(&stat));
        assert_eq!(missing, Err(Errno::NOENT));
        // Both have seen that it is missing.
        assert_eq!([(); 2].map(|()| make(&workspace, ".git")), [Ok(()); 2]);
        assert_eq!(look(&workspace, ".git").map(|stat| is_ours(&stat)), Ok(true));
    }
}
