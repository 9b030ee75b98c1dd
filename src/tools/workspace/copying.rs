//! Recursive copies of folders.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _, Permissions, PermissionsExt as _};
use rustix::fs::{Mode, mkdirat, syncfs};

use super::modes::{Modes, create_private_folder};
use super::open::{Missing, open_folder, open_regular};
use super::or_itself;

/// The maximum total size of the copied files, in bytes.
const MAX_BYTES: u64 = 256 * 1024 * 1024;
/// The maximum number of copied files and folders.
const MAX_ENTRIES: usize = 10_000;
/// The maximum nesting depth of folders.
const MAX_DEPTH: usize = 100;

/// The reason why a folder was not copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The folder exceeds a limit.
    #[error(
        "the folder has more than {MAX_ENTRIES} files, {MAX_BYTES} bytes or {MAX_DEPTH} levels"
    )]
    TooLarge,
    /// An I/O error.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Copies a folder that the service owns to a path that does not exist. Does nothing if the source
/// does not exist. Copies only regular files and folders, because a symbolic link may lead to files
/// of other tenants.
///
/// Returns the bytes of the copied files. The copy is not a snapshot: concurrent changes may be included or not. After an error a partial
/// copy remains.
pub fn copy_folder(from: &Path, to: &Path) -> Result<u64, CopyError> {
    let source = match open_in(from) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        source => source?,
    };
    create_private_folder(to)?;
    let copy = open_in(to)?;
    let mut walk = Walk { entries: 0, bytes: 0, folders: VecDeque::from([PathBuf::new()]) };
    while let Some(path) = walk.folders.pop_front() {
        walk.folder(&source, &copy, &path)?;
    }
    // A forked session keeps its files after a power failure.
    syncfs(copy.open(".")?).map_err(io::Error::from)?;
    Ok(walk.bytes)
}

/// Opens a folder. Fails if the folder is a symbolic link.
fn open_in(folder: &Path) -> io::Result<Dir> {
    let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else {
        return Err(ErrorKind::InvalidInput.into());
    };
    let parent = Dir::open_ambient_dir(parent, ambient_authority())?;
    open_folder(parent, Path::new(name), Missing::Fail)
}

/// The state of a copy: the totals so far and the folders still to copy.
struct Walk {
    entries: usize,
    bytes: u64,
    folders: VecDeque<PathBuf>,
}

impl Walk {
    /// Copies the files of a folder, and creates its subfolders.
    fn folder(&mut self, source: &Dir, copy: &Dir, path: &Path) -> Result<(), CopyError> {
        let from = readable(open_folder(source.try_clone()?, path, Missing::Fail))?;
        let Some(from) = from else { return Ok(()) };
        let Some(entries) = readable(from.entries())? else { return Ok(()) };
        let to = copy.open_dir(or_itself(path))?;
        for entry in entries {
            let entry = entry?;
            let (name, kind) = (entry.file_name(), entry.file_type()?);
            if !kind.is_dir() && !kind.is_file() {
                continue;
            }
            self.entries += 1;
            let is_deep = kind.is_dir() && path.components().count() >= MAX_DEPTH;
            if self.entries > MAX_ENTRIES || is_deep {
                return Err(CopyError::TooLarge);
            }
            if kind.is_dir() {
                mkdirat(&to, &name, Mode::from_raw_mode(Modes::PRIVATE.folder))
                    .map_err(io::Error::from)?;
                self.folders.push_back(path.join(&name));
            } else {
                self.file(&from, &to, &name)?;
            }
        }
        Ok(())
    }

    fn file(&mut self, from: &Dir, to: &Dir, name: &OsStr) -> Result<(), CopyError> {
        let Some(Some(file)) = readable(open_regular(from, Path::new(name)))? else {
            return Ok(());
        };
        let mode = file.metadata()?.permissions().mode();
        let private = Modes::PRIVATE.file;
        let options = OpenOptions::new().write(true).create_new(true).mode(private).to_owned();
        let mut copy = to.open_with(name, &options)?;
        let left = MAX_BYTES - self.bytes;
        let copied = io::copy(&mut file.take(left + 1), &mut copy)?;
        if copied > left {
            return Err(CopyError::TooLarge);
        }
        self.bytes += copied;
        copy.set_permissions(Permissions::from_mode(mode & 0o700))?;
        Ok(())
    }
}

/// Maps missing files and files without read permission to `None`. No tool can read the latter, so
/// the copy omits them.
fn readable<T>(opened: io::Result<T>) -> io::Result<Option<T>> {
    match opened {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {
            Ok(None)
        }
        opened => opened.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn home() -> (tempfile::TempDir, PathBuf, PathBuf) {
        home_in(&std::env::temp_dir())
    }

    fn home_in(folder: &Path) -> (tempfile::TempDir, PathBuf, PathBuf) {
        let home = tempfile::TempDir::new_in(folder).unwrap();
        let (from, to) = (home.path().join("from"), home.path().join("to"));
        fs::create_dir(&from).unwrap();
        (home, from, to)
    }

    fn is_too_large(from: &Path, to: &Path) -> bool {
        matches!(copy_folder(from, to), Err(CopyError::TooLarge))
    }

    #[test]
    fn files_and_folders_are_copied_and_links_are_not() {
        let (home, from, to) = home();
        fs::create_dir_all(from.join("a/b/empty")).unwrap();
        fs::write(from.join("a/b/run.sh"), "true").unwrap();
        let runs = std::os::unix::fs::PermissionsExt::from_mode(0o4755);
        fs::set_permissions(from.join("a/b/run.sh"), runs).unwrap();
        fs::write(home.path().join("secret"), "not ours").unwrap();
        symlink(home.path().join("secret"), from.join("a/secret")).unwrap();
        symlink(home.path(), from.join("above")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            from.join("pipe"),
            rustix::fs::FileType::Fifo,
            Mode::RWXU,
            0,
        )
        .unwrap();
        copy_folder(&from, &to).unwrap();
        let mut found = Vec::new();
        let mut folders = vec![to.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path.clone());
                }
                found.push(path.strip_prefix(&to).unwrap().to_str().unwrap().to_owned());
            }
        }
        found.sort();
        assert_eq!(found, ["a", "a/b", "a/b/empty", "a/b/run.sh"]);
        assert_eq!(fs::read_to_string(to.join("a/b/run.sh")).unwrap(), "true");
        let mode = |path: &Path| {
            let permissions = fs::metadata(path).unwrap().permissions();
            std::os::unix::fs::PermissionsExt::mode(&permissions) & 0o7777
        };
        assert_eq!(mode(&to.join("a/b/run.sh")), 0o700);
        assert_eq!([&to, &to.join("a")].map(|folder| mode(folder)), [0o700; 2]);
    }

    #[test]
    fn a_folder_that_is_a_link_is_not_copied() {
        let (home, from, to) = home();
        symlink(&from, home.path().join("link")).unwrap();
        assert!(copy_folder(&home.path().join("link"), &to).is_err());
        assert!(!to.exists());
    }

    #[test]
    fn a_source_that_does_not_exist_is_ignored() {
        let (home, _, to) = home();
        copy_folder(&home.path().join("none"), &to).unwrap();
        assert!(!to.exists());
    }

    #[test]
    fn too_many_bytes_files_and_levels_are_refused() {
        let (_home, from, to) = home();
        let file = fs::File::create(from.join("large")).unwrap();
        file.set_len(MAX_BYTES).unwrap();
        copy_folder(&from, &to).unwrap();
        fs::remove_dir_all(&to).unwrap();
        fs::write(from.join("more"), "x").unwrap();
        assert!(is_too_large(&from, &to));
        fs::remove_dir_all(&to).unwrap();

        // In memory, where so many files are created in a tenth of the time.
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let (_home, from, to) = home_in(&folder);
        for n in 0..MAX_ENTRIES {
            fs::write(from.join(n.to_string()), "").unwrap();
        }
        copy_folder(&from, &to).unwrap();
        fs::remove_dir_all(&to).unwrap();
        fs::create_dir(from.join("folder")).unwrap();
        assert!(is_too_large(&from, &to));
        fs::remove_dir_all(&to).unwrap();

        fs::remove_dir_all(&from).unwrap();
        let deep: PathBuf = vec!["d"; MAX_DEPTH].iter().collect();
        fs::create_dir_all(from.join(&deep)).unwrap();
        copy_folder(&from, &to).unwrap();
        fs::remove_dir_all(&to).unwrap();
        fs::create_dir(from.join(deep).join("d")).unwrap();
        assert!(is_too_large(&from, &to));
    }
}
