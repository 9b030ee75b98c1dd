//! The files of a session. Every path is opened relative to the folder's handle. Neither `..` nor a
//! symbolic link leads out of the folder, even if the link replaces a folder during the access.
//!
//! A hard link to a file outside cannot be distinguished from a file. Creating one requires access
//! to that file, which neither tools nor the sandbox have. A write replaces the directory entry in
//! the workspace and never changes the linked file.

mod copying;
mod draft;
mod folder_lock;
mod modes;
mod open;
mod paths;
mod protected;
mod removal;
mod removal_note;
mod roots;
mod size;
mod stored_results;

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, MetadataExt as _, OpenOptions, OpenOptionsExt as _};
use rustix::fs::{RenameFlags, renameat_with};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use super::error::ToolError;
use crate::faults::{self, Point};

pub use copying::{CopyError, copy_folder};
pub use draft::Draft;
use modes::Modes;
pub use modes::create_private_folder;
pub(in crate::tools) use open::open_regular;
use open::{Missing, open_folder};
pub use paths::ALIAS;
pub use protected::PROTECTED;
pub use removal::remove_folder;
pub use removal_note::{NoteRange, RemovalNote, list_removal_notes};
pub use roots::Roots;
pub use size::folder_size;

/// The maximum size, in bytes, of a file that is read, hashed or written.
pub const MAX_FILE: usize = 16 * 1024 * 1024;

/// The maximum length of a path, in bytes. Paths are keys in the database, whose length is limited.
const MAX_PATH: usize = 2048;

/// The folder of a session, without access to anything above it.
#[derive(Debug, Clone)]
pub struct Workspace {
    root: PathBuf,
    /// If set, the operator or a client chose the folder.
    is_named: bool,
}

/// An entry of a folder listing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FolderEntry {
    /// The entry's name.
    pub name: String,
    /// If set, the entry is a folder.
    pub is_folder: bool,
}

impl Workspace {
    /// A folder that the service owns. It is created on first use.
    pub fn new(root: PathBuf) -> Self {
        Self { root, is_named: false }
    }

    /// A folder that the operator or a client has named. No component of its path may be a symbolic
    /// link: otherwise a process in one folder could replace it by a link to another folder.
    pub fn named(root: PathBuf) -> Self {
        Self { root, is_named: true }
    }

    /// Returns the path of the folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The permissions of new files and folders.
    fn modes(&self) -> Modes {
        if self.is_named { Modes::SHARED } else { Modes::PRIVATE }
    }

    /// Returns the paths of the folder: as configured, and with symbolic links resolved.
    pub fn names(&self) -> Vec<PathBuf> {
        let real = paths::real(&self.root).filter(|real| *real != self.root);
        [self.root.clone()].into_iter().chain(real).collect()
    }

    /// Returns the folder's device and inode, which identify it even if another folder takes its
    /// path.
    pub fn identity(&self) -> Result<(u64, u64), ToolError> {
        let metadata = self.dir()?.dir_metadata().map_err(|error| failed(".", error))?;
        Ok((metadata.dev(), metadata.ino()))
    }

    /// Returns the path of the folder, and creates the folder if it does not exist.
    pub fn folder(&self) -> Result<PathBuf, ToolError> {
        self.dir()?;
        Ok(self.root.clone())
    }

    /// Normalizes a path for storage and comparison.
    pub fn plain(&self, path: &str) -> Result<String, ToolError> {
        let relative = paths::relative_path(&self.root, path)?;
        let text = relative.to_str().ok_or_else(|| failed(path, ErrorKind::InvalidInput.into()))?;
        if text.len() > MAX_PATH {
            return Err(failed(path, ErrorKind::InvalidFilename.into()));
        }
        Ok(if text.is_empty() { ".".to_owned() } else { text.to_owned() })
    }

    /// Returns the part of an absolute glob that is relative to the workspace, with a slash at its
    /// beginning. Returns `None` for all other globs.
    pub(in crate::tools) fn relative_glob(&self, glob: &str) -> Option<String> {
        paths::relative_glob(&self.names(), glob)
    }

    /// Reads a regular file as bytes. Fails if it does not exist.
    pub fn read(&self, path: &str) -> Result<Vec<u8>, ToolError> {
        self.find(path)?.ok_or_else(|| failed(path, ErrorKind::NotFound.into()))
    }

    /// Reads a regular file as bytes. Returns `None` if it does not exist.
    pub fn find(&self, path: &str) -> Result<Option<Vec<u8>>, ToolError> {
        let fail = |error| failed(path, error);
        let (dir, relative) = self.locate(path)?;
        let Some(file) = open_regular(&dir, or_itself(&relative)).map_err(fail)? else {
            return Ok(None);
        };
        let size = file.metadata().map_err(fail)?.len();
        let mut bytes = Vec::new();
        if size <= MAX_FILE as u64 {
            file.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes).map_err(fail)?;
        }
        if size > MAX_FILE as u64 || bytes.len() > MAX_FILE {
            return Err(too_large(path));
        }
        Ok(Some(bytes))
    }

    /// Returns the SHA-256 of a file, or `None` if it does not exist.
    pub fn hash(&self, path: &str) -> Result<Option<Vec<u8>>, ToolError> {
        Ok(self.find(path)?.map(|bytes| hash(&bytes)))
    }

    /// Fails for a path that no tool may write to.
    pub fn check_writable(&self, path: &str) -> Result<(), ToolError> {
        protected::refuse(path, &paths::relative_path(&self.root, path)?)
    }

    /// Writes a file atomically. After a crash the file has the old or the new content, and a
    /// temporary file may remain.
    ///
    /// `may_finish` is called immediately before the file is replaced, while the file's folder is
    /// locked. It returns false if the call has lost the right to write. The folder stays locked
    /// until the file is replaced, however long that takes, also if the call is no longer awaited.
    /// Without the lock nothing is written.
    pub fn write(
        &self,
        path: &str,
        content: &[u8],
        draft: &Draft,
        may_finish: impl FnOnce() -> bool,
    ) -> Result<(), ToolError> {
        let fail = |error| failed(path, error);
        let (dir, relative) = self.locate(path)?;
        protected::refuse(path, &relative)?;
        if content.len() > MAX_FILE {
            return Err(too_large(path));
        }
        let name = relative.file_name().ok_or_else(|| fail(ErrorKind::IsADirectory.into()))?;
        let parent = relative.parent().unwrap_or(Path::new(""));
        let modes = self.modes();
        let folder = open_folder(dir, parent, Missing::Create(modes)).map_err(fail)?;
        put((&folder, modes), Path::new(name), content, draft, may_finish).map_err(fail)
    }

    /// Removes the temporary files of earlier attempts of a call. An earlier attempt that is still
    /// running then fails to rename its temporary file.
    pub fn discard_drafts(&self, path: &str, draft: &Draft) -> Result<(), ToolError> {
        let (dir, relative) = self.locate(path)?;
        for name in draft.earlier() {
            match dir.remove_file(relative.with_file_name(name)) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(failed(path, error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Lists a folder, sorted by name.
    pub fn list(&self, path: &str) -> Result<Vec<FolderEntry>, ToolError> {
        let fail = |error| failed(path, error);
        let (dir, relative) = self.locate(path)?;
        let folder = dir.open_dir(or_itself(&relative)).map_err(fail)?;
        let mut entries = Vec::new();
        for entry in folder.entries().map_err(fail)? {
            let entry = entry.map_err(fail)?;
            entries.push(FolderEntry {
                name: entry.file_name().to_string_lossy().into_owned(),
                is_folder: entry.file_type().is_ok_and(|kind| kind.is_dir()),
            });
        }
        entries.sort();
        Ok(entries)
    }

    /// Returns the folder's handle and a path relative to it, without `.` and `..`. The path is
    /// empty for the folder itself.
    pub(in crate::tools) fn locate(&self, path: &str) -> Result<(Dir, PathBuf), ToolError> {
        let relative = paths::relative_path(&self.root, path)?;
        Ok((self.dir()?, relative))
    }

    fn dir(&self) -> Result<Dir, ToolError> {
        self.open().map_err(|error| {
            tracing::error!(path = %self.root.display(), %error, "workspace could not be opened");
            ToolError::Failed("the workspace cannot be opened".to_owned())
        })
    }

    fn open(&self) -> io::Result<Dir> {
        if self.is_named {
            let relative = self.root.strip_prefix("/").map_err(io::Error::other)?;
            let top = Dir::open_ambient_dir("/", ambient_authority())?;
            return open_folder(top, relative, Missing::Fail);
        }
        let open = || Dir::open_ambient_dir(&self.root, ambient_authority());
        match open() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                create_private_folder(&self.root)?;
                open()
            }
            opened => opened,
        }
    }
}

/// Writes a file into a folder atomically. If the file did not exist and another process creates it
/// during the write, the other file remains and the write fails.
fn put(
    (folder, modes): (&Dir, Modes),
    name: &Path,
    content: &[u8],
    draft: &Draft,
    may_finish: impl FnOnce() -> bool,
) -> io::Result<()> {
    let permissions = match folder.symlink_metadata(name) {
        Ok(old) if old.is_dir() => return Err(ErrorKind::IsADirectory.into()),
        Ok(old) if old.is_symlink() => {
            return Err(io::Error::other("it is a symbolic link; write to its target"));
        }
        Ok(old) if old.is_file() => Some(old.permissions()),
        Ok(_) => return Err(io::Error::other("not a regular file")),
        Err(_) => None,
    };
    let (temporary, is_new) = (draft.name(), permissions.is_none());
    let written = (|| {
        // The permissions of an existing file are set when the content is written: no other user
        // may read it before.
        let mode = if is_new { modes.file } else { Modes::PRIVATE.file };
        let options = OpenOptions::new().write(true).create_new(true).mode(mode).to_owned();
        let mut file = folder.open_with(&temporary, &options)?;
        file.write_all(content)?;
        if let Some(permissions) = permissions {
            file.set_permissions(permissions)?;
        }
        file.sync_all()?;
        faults::point_blocking(Point::FileWritten);
        let _lock = folder_lock::lock(folder)?;
        if !may_finish() {
            return Err(io::Error::other("the call was stopped before the file was written"));
        }
        if is_new {
            rename_new(folder, &temporary, name)
        } else {
            folder.rename(&temporary, folder, name)
        }
    })();
    if written.is_err() {
        // The error of the write is reported rather than that of the removal.
        let _ = folder.remove_file(&temporary);
    }
    written
}

/// Renames a temporary file to a name that must not exist.
fn rename_new(folder: &Dir, draft: &str, name: &Path) -> io::Result<()> {
    match renameat_with(folder, draft, folder, name, RenameFlags::NOREPLACE) {
        Err(Errno::EXIST) => Err(io::Error::other(
            "another process has just created it; read it \
            first",
        )),
        // Some file systems do not support `RENAME_NOREPLACE`.
        Err(Errno::INVAL | Errno::NOSYS) => folder.rename(draft, folder, name),
        named => Ok(named?),
    }
}

/// Replaces an empty path by `.`.
pub(in crate::tools) fn or_itself(relative: &Path) -> &Path {
    if relative.as_os_str().is_empty() { Path::new(".") } else { relative }
}

/// Returns the SHA-256 of a byte string.
pub fn hash(bytes: &[u8]) -> Vec<u8> {
    Sha256::digest(bytes).to_vec()
}

fn too_large(path: &str) -> ToolError {
    ToolError::Failed(format!("{path} is larger than {MAX_FILE} bytes"))
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err takes")]
pub(in crate::tools) fn failed(path: &str, error: io::Error) -> ToolError {
    const WORDS: [(ErrorKind, &str); 5] = [
        (ErrorKind::NotFound, "there is no such file or folder"),
        (ErrorKind::PermissionDenied, "it is outside of the workspace, or not allowed"),
        (ErrorKind::IsADirectory, "it is a folder"),
        (ErrorKind::NotADirectory, "it is not a folder"),
        (ErrorKind::InvalidFilename, "the name is too long"),
    ];
    let known = WORDS.iter().find(|(kind, _)| *kind == error.kind());
    let why = known.map_or_else(|| error.to_string(), |(_, words)| (*words).to_owned());
    ToolError::Failed(format!("{path}: {why}"))
}

#[cfg(test)]
mod race;
#[cfg(test)]
mod tests;
