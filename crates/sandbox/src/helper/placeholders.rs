//! Placeholders for protected names that the workspace does not have. A mount needs an existing
//! target, so an empty folder takes the place of each missing name while the command runs.
//!
//! All operations use the handle of the workspace, because its path can change at any time.

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

use super::Parameters;

/// The mode of a placeholder: an empty folder without write permission.
const MODE: u32 = 0o555;
/// Maximum number of attempts to lock the workspace.
const TRIES: u32 = 40;
const PAUSE: Duration = Duration::from_millis(50);

/// The placeholders of a command.
pub(super) struct Placeholders {
    /// The handle of the workspace, with a shared lock of every command that uses the placeholders.
    workspace: File,
    places: Vec<(String, Stat)>,
}

impl Placeholders {
    /// Creates a placeholder for each missing protected name.
    pub(super) fn put(parameters: &Parameters) -> Result<Self, String> {
        let workspace = open(parameters)?;
        if !parameters.protected.is_empty() {
            lock(&workspace)?;
        }
        // From here on dropping removes the created placeholders, also after an error.
        let mut placeholders = Self { workspace, places: Vec::new() };
        for name in &parameters.protected {
            let stat = put(&placeholders.workspace, name)?;
            placeholders.places.push((name.clone(), stat));
        }
        Ok(placeholders)
    }

    /// Returns the devices and inodes of the protected names.
    pub(super) fn identities(&self) -> Vec<(u64, u64)> {
        self.places.iter().map(|(_, stat)| identity(stat)).collect()
    }
}

impl Drop for Placeholders {
    /// Removes the placeholders, unless another command uses them; then that one removes them.
    fn drop(&mut self) {
        if flock(&self.workspace, FlockOperation::NonBlockingLockExclusive).is_err() {
            return;
        }
        for (name, _) in &self.places {
            if look(&self.workspace, name).is_ok_and(|stat| is_ours(&stat)) {
                // A folder with content is not a placeholder any more.
                let _ = unlinkat(&self.workspace, name, AtFlags::REMOVEDIR);
            }
        }
    }
}

/// Opens the workspace and verifies its identity.
fn open(parameters: &Parameters) -> Result<File, String> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened: Result<OwnedFd, Errno> = openat2(
        CWD,
        &parameters.workspace,
        flags,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    );
    let workspace = opened.map_err(could_not("the workspace cannot be opened"))?;
    let stat = fstat(&workspace).map_err(could_not("the workspace cannot be inspected"))?;
    if identity(&stat) != parameters.identity {
        return Err("the workspace was replaced while the command started".to_owned());
    }
    Ok(workspace.into())
}

/// Waits for a command that removes its placeholders.
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
    let inspected = match look(workspace, name) {
        Err(Errno::NOENT) => {
            make(workspace, name).map_err(could_not("a placeholder cannot be created"))?;
            look(workspace, name)
        }
        inspected => inspected,
    };
    let stat = inspected.map_err(could_not("a protected name cannot be inspected"))?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
        // A mount would cover the target of the link, and the link could be replaced.
        return Err(format!("{name} is a symbolic link and cannot be protected"));
    }
    Ok(stat)
}

fn make(workspace: &File, name: &str) -> Result<(), Errno> {
    match mkdirat(workspace, name, Mode::from_raw_mode(MODE)) {
        // Another command of this workspace, started at the same time, has created it.
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
    fn two_commands_that_start_together_share_one_placeholder() {
        let folder = TempDir::new().unwrap();
        let workspace = File::open(folder.path()).unwrap();
        let missing = look(&workspace, ".git").map(|stat| is_ours(&stat));
        assert_eq!(missing, Err(Errno::NOENT));
        // Both have found it missing.
        assert_eq!([(); 2].map(|()| make(&workspace, ".git")), [Ok(()); 2]);
        assert_eq!(look(&workspace, ".git").map(|stat| is_ours(&stat)), Ok(true));
    }
}
