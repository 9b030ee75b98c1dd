//! The permissions of the service's own folders and files.
//!
//! Sessions, keys and the database belong to the user of the service alone. Earlier versions created
//! folders that all users of the machine could read, so every start repairs them: first the outer
//! folders, which already keeps other users out, then the entries of the inner ones.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, Mode, OFlags, fchmod, fstat, open};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::config::{Config, Database};
use crate::tools::workspace::create_private_folder;

/// The names in a data folder. A folder with other names has another purpose, too.
const OWN_NAMES: [&str; 4] = ["postgres", "state", "workspaces", "chat-history"];
/// No access for other users.
const NOTHING: Mode = Mode::empty();
/// The folder of removal notes; its files are repaired like those of the state folder.
const NOTES: &str = ".leaving";
/// The maximum time for the entries of folders. The next start continues, and the outer folders keep
/// other users out meanwhile.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// The result of a repair.
#[derive(Debug, Default)]
struct Repair {
    changed: u64,
    is_complete: bool,
}

/// Creates the data folder, and removes the permissions of other users from the folders and files
/// that the service owns. Shared workspaces are not changed: they belong to the operator.
pub(super) async fn secure(config: &Config) {
    let folders = Folders::of(config);
    let repaired = tokio::task::spawn_blocking(move || folders.repair()).await;
    match repaired {
        Ok(Repair { changed: 0, is_complete: true }) => {}
        Ok(Repair { changed, is_complete: true }) => {
            tracing::info!(changed, "access of other users to files of the service removed");
        }
        Ok(Repair { changed, is_complete: false }) => tracing::warn!(
            changed,
            "access of other users to files of the service not removed completely; the next start \
             continues"
        ),
        Err(error) => tracing::error!(%error, "permissions of files not checked"),
    }
}

/// The folders of the service.
#[derive(Debug)]
struct Folders {
    data_dir: Option<PathBuf>,
    workspaces: PathBuf,
    state_dir: PathBuf,
    /// The user of the private database server must be able to pass through the data folder.
    is_passage: bool,
}

impl Folders {
    fn of(config: &Config) -> Self {
        let has_private_database = matches!(config.database, Database::Private(_));
        Self {
            data_dir: config.data_dir.clone(),
            workspaces: config.workspaces.clone(),
            state_dir: config.state_dir.clone(),
            is_passage: has_private_database && geteuid().is_root(),
        }
    }

    fn repair(&self) -> Repair {
        let mut repair = Repair { changed: 0, is_complete: true };
        if let Some(data_dir) = &self.data_dir {
            repair.data_dir(data_dir, self.is_passage);
        }
        let until = Instant::now() + TIME_LIMIT;
        for folder in [&self.state_dir, &self.workspaces, &self.workspaces.join(NOTES)] {
            repair.change(folder, NOTHING);
            repair.entries(folder, until);
        }
        repair
    }
}

impl Repair {
    fn data_dir(&mut self, data_dir: &Path, is_passage: bool) {
        if let Err(error) = create_private_folder(data_dir) {
            // The first use of the folder reports the error to the caller.
            let folder = data_dir.display();
            return tracing::debug!(%error, %folder, "data folder not created");
        }
        let passage = if is_passage { Mode::XGRP | Mode::XOTH } else { NOTHING };
        let database = data_dir.join("postgres");
        self.change(&database, passage);
        self.change(&database.join("lock"), NOTHING);
        self.change(&data_dir.join("chat-history"), NOTHING);
        if has_only_own_names(data_dir) {
            self.change(data_dir, passage);
        } else {
            tracing::warn!(
                folder = %data_dir.display(),
                "permissions of the data folder not changed, because it contains other files"
            );
        }
    }

    /// Repairs the entries of a folder, but not the entries of these.
    fn entries(&mut self, folder: &Path, until: Instant) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if Instant::now() > until {
                self.is_complete = false;
                return;
            }
            self.change(&entry.path(), NOTHING);
        }
    }

    /// Sets the access of other users to a folder or a file.
    fn change(&mut self, path: &Path, others: Mode) {
        match set_access_of_others(path, others) {
            Ok(is_changed) => self.changed += u64::from(is_changed),
            Err(error) => {
                self.is_complete = false;
                let path = path.display();
                tracing::warn!(%error, %path, "access of other users not removed");
            }
        }
    }
}

/// Returns true if other users have lost permissions. Entries that another user owns, links, and
/// special files stay as they are. A folder with the set-group-ID bit is shared with a group on
/// purpose, so the group keeps its access.
fn set_access_of_others(path: &Path, others: Mode) -> Result<bool, Errno> {
    // A FIFO would block without `NONBLOCK`.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match open(path, flags, Mode::empty()) {
        Ok(file) => file,
        // A link, a missing file, or one without any access for its owner.
        Err(Errno::NOENT | Errno::LOOP | Errno::ACCESS | Errno::NXIO) => return Ok(false),
        Err(error) => return Err(error),
    };
    let stat = fstat(&file)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    // Another name of a file may be outside of the folders of the service.
    let is_own_file = kind == FileType::RegularFile && stat.st_nlink == 1;
    let is_own = kind == FileType::Directory || is_own_file;
    if !is_own || stat.st_uid != geteuid().as_raw() {
        return Ok(false);
    }
    let before = Mode::from_raw_mode(stat.st_mode);
    let kept = if before.contains(Mode::SGID) { Mode::RWXG } else { NOTHING };
    let after = (before & !(Mode::RWXG | Mode::RWXO)) | (before & kept) | others;
    if after == before {
        return Ok(false);
    }
    fchmod(&file, after)?;
    Ok(!after.contains(before))
}

fn has_only_own_names(data_dir: &Path) -> bool {
    let mut entries = fs::read_dir(data_dir).into_iter().flatten().flatten();
    entries.all(|entry| OWN_NAMES.iter().any(|name| entry.file_name() == *name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// A data folder as earlier versions created it, in a folder with other files.
    fn old_data() -> (tempfile::TempDir, Folders) {
        let outer = tempfile::tempdir().unwrap();
        let data = outer.path().join("data");
        for folder in ["postgres", "state", "workspaces/ses_1", "workspaces/.leaving"] {
            fs::create_dir_all(data.join(folder)).unwrap();
        }
        for file in ["postgres/lock", "state/worker-0", "workspaces/.leaving/ses_2"] {
            fs::write(data.join(file), "").unwrap();
            set_mode(&data.join(file), 0o644);
        }
        for folder in ["", "postgres", "state", "workspaces", "workspaces/ses_1"] {
            set_mode(&data.join(folder), 0o755);
        }
        let folders = Folders {
            workspaces: data.join("workspaces"),
            state_dir: data.join("state"),
            data_dir: Some(data),
            is_passage: false,
        };
        (outer, folders)
    }

    #[test]
    fn folders_of_earlier_versions_are_closed_to_other_users() {
        let (outer, folders) = old_data();
        let data = outer.path().join("data");
        let found = folders.repair();
        assert!(found.is_complete && found.changed >= 8, "{found:?}");
        for folder in ["", "postgres", "state", "workspaces", "workspaces/ses_1"] {
            assert_eq!(mode(&data.join(folder)), 0o700, "{folder:?}");
        }
        for file in ["postgres/lock", "state/worker-0", "workspaces/.leaving/ses_2"] {
            assert_eq!(mode(&data.join(file)), 0o600, "{file}");
        }
        assert_eq!(folders.repair().changed, 0, "a second repair changes nothing");
    }

    #[test]
    fn the_user_of_the_private_database_can_still_pass_through_the_data_folder() {
        let (outer, folders) = old_data();
        let data = outer.path().join("data");
        set_mode(&data, 0o700);
        Folders { is_passage: true, ..folders }.repair();
        let modes = ["", "postgres", "state", "workspaces"].map(|name| mode(&data.join(name)));
        assert_eq!(modes, [0o711, 0o711, 0o700, 0o700]);
    }

    #[test]
    fn files_outside_of_the_own_folders_keep_their_permissions() {
        let (outer, folders) = old_data();
        let data = outer.path().join("data");
        let other = outer.path().join("other");
        fs::create_dir(&other).unwrap();
        set_mode(&other, 0o755);
        symlink(&other, data.join("workspaces/ses_3")).unwrap();
        fs::write(data.join("workspaces/first"), "").unwrap();
        set_mode(&data.join("workspaces/first"), 0o644);
        fs::hard_link(data.join("workspaces/first"), outer.path().join("second")).unwrap();
        fs::write(data.join("notes.txt"), "not ours").unwrap();
        set_mode(&data.join("workspaces"), 0o2775);
        folders.repair();
        assert_eq!(mode(&other), 0o755, "a link was followed");
        assert_eq!(mode(&outer.path().join("second")), 0o644, "a file has another name");
        assert_eq!(mode(&data), 0o755, "the folder has files of other programs");
        assert_eq!(mode(&data.join("workspaces")), 0o2770, "the folder is shared with a group");
    }
}
