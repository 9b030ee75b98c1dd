//! The files of a session. Every path is opened beneath the folder's handle, so that neither
//! `..` nor a link, nor one that is swapped in while we look, leads out of it.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, OpenOptions, OpenOptionsExt as _};
use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

use super::ToolError;
use crate::domain::claim::Fence;
use crate::faults::{self, Point};

/// The largest file that is read or hashed.
const MAX_FILE: u64 = 16 * 1024 * 1024;
/// Names that no tool writes to: programs outside of the sandbox run what is in there.
pub(super) const PROTECTED: [&str; 1] = [".git"];

/// A folder and nothing above it.
#[derive(Debug, Clone)]
pub struct Workspace {
    root: PathBuf,
}

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Whether it is a folder.
    pub is_folder: bool,
}

/// The name of a file that is not finished: of one attempt at one call, so that the next attempt
/// knows what to clear away.
#[derive(Debug, Clone)]
pub struct Draft {
    call: u128,
    attempt: i32,
}

impl Draft {
    /// The draft of a call. Ids of calls may repeat in other runs, and are not file names.
    pub fn new(claim: Fence, tool_use_id: &str) -> Self {
        let hash = hash(format!("{} {tool_use_id}", claim.run_id).as_bytes());
        let call = hash.iter().take(16).fold(0, |call, byte| call << 8 | u128::from(*byte));
        Self { call, attempt: claim.attempt }
    }

    fn name(&self, attempt: i32) -> String {
        format!(".twostep-{:032x}-{attempt}", self.call)
    }
}

impl Workspace {
    /// The folder need not exist yet.
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// The real folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A path in its plainest form: what is stored of it, and compared.
    pub fn plain(&self, path: &str) -> Result<String, ToolError> {
        let relative = self.relative(path)?;
        let text = relative.to_str().ok_or_else(|| failed(path, ErrorKind::InvalidInput.into()))?;
        Ok(text.to_owned())
    }

    /// The folder itself, which is made if it is not there.
    pub fn folder(&self) -> Result<PathBuf, ToolError> {
        self.dir()?;
        Ok(self.root.clone())
    }

    /// Reads a regular file as bytes.
    pub fn read(&self, path: &str) -> Result<Vec<u8>, ToolError> {
        let dir = self.dir()?;
        self.read_in(&dir, path)?.ok_or_else(|| failed(path, ErrorKind::NotFound.into()))
    }

    /// The SHA-256 of a file; none if there is no such file.
    pub fn hash(&self, path: &str) -> Result<Option<Vec<u8>>, ToolError> {
        let dir = self.dir()?;
        Ok(self.read_in(&dir, path)?.map(|bytes| hash(&bytes)))
    }

    /// Writes a file whole: after a crash there is the old one or the new one, and a draft.
    ///
    /// `may_finish` is asked at the last moment: a write that took too long may not be ours to
    /// make any more.
    pub fn write(
        &self,
        path: &str,
        content: &[u8],
        draft: &Draft,
        may_finish: impl FnOnce() -> bool,
    ) -> Result<(), ToolError> {
        let dir = self.dir()?;
        let relative = self.relative(path)?;
        refuse_protected(path, &relative)?;
        let fail = |error| failed(path, error);
        let name = relative.file_name().ok_or_else(|| fail(ErrorKind::IsADirectory.into()))?;
        let folder = match relative.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => {
                refuse_links(&dir, path, parent)?;
                dir.create_dir_all(parent).map_err(fail)?;
                dir.open_dir(parent).map_err(fail)?
            }
            _ => dir,
        };
        let permissions = match folder.symlink_metadata(name) {
            Ok(old) if old.is_dir() => return Err(fail(ErrorKind::IsADirectory.into())),
            Ok(old) if old.is_file() => Some(old.permissions()),
            _ => None,
        };
        let temporary = draft.name(draft.attempt);
        let written = (|| {
            let options = OpenOptions::new().write(true).create_new(true).to_owned();
            let mut file = folder.open_with(&temporary, &options)?;
            file.write_all(content)?;
            if let Some(permissions) = permissions {
                file.set_permissions(permissions)?;
            }
            file.sync_all()?;
            faults::point_blocking(Point::FileWritten);
            if !may_finish() {
                return Err(io::Error::other("the call was given up before the file was in place"));
            }
            folder.rename(&temporary, &folder, name)
        })();
        if written.is_err() {
            // The error of the write is the one to tell.
            let _ = folder.remove_file(&temporary);
        }
        written.map_err(fail)
    }

    /// Removes what dead attempts of a call left beside its file. An attempt that only seems dead
    /// cannot put its draft in place any more.
    pub fn discard_drafts(&self, path: &str, draft: &Draft) -> Result<(), ToolError> {
        let relative = self.relative(path)?;
        let dir = self.dir()?;
        for name in (1..draft.attempt).map(|attempt| draft.name(attempt)) {
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
    pub fn list(&self, path: &str) -> Result<Vec<Listed>, ToolError> {
        let dir = self.dir()?;
        let relative = self.relative(path)?;
        let fail = |error| failed(path, error);
        let folder = dir.open_dir(&relative).map_err(fail)?;
        let mut entries = Vec::new();
        for entry in folder.entries().map_err(fail)? {
            let entry = entry.map_err(fail)?;
            entries.push(Listed {
                name: entry.file_name().to_string_lossy().into_owned(),
                is_folder: entry.file_type().is_ok_and(|kind| kind.is_dir()),
            });
        }
        entries.sort();
        Ok(entries)
    }

    /// The folder's handle and a path beneath it, without `.` and `..`; empty for the folder itself.
    pub(in crate::tools) fn beneath(&self, path: &str) -> Result<(Dir, PathBuf), ToolError> {
        let mut plain = PathBuf::new();
        for part in self.relative(path)?.components() {
            match part {
                Component::Normal(name) => plain.push(name),
                Component::ParentDir if plain.pop() => {}
                Component::CurDir => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    return Err(failed(path, ErrorKind::PermissionDenied.into()));
                }
            }
        }
        Ok((self.dir()?, plain))
    }

    fn dir(&self) -> Result<Dir, ToolError> {
        let open = || Dir::open_ambient_dir(&self.root, ambient_authority());
        let opened = match open() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Dir::create_ambient_dir_all(&self.root, ambient_authority()).and_then(|()| open())
            }
            opened => opened,
        };
        opened.map_err(|error| {
            tracing::error!(path = %self.root.display(), %error, "a workspace cannot be opened");
            ToolError::Failed("the workspace cannot be opened".to_owned())
        })
    }

    fn read_in(&self, dir: &Dir, path: &str) -> Result<Option<Vec<u8>>, ToolError> {
        let fail = |error| failed(path, error);
        let Some(file) = open_regular(dir, &self.relative(path)?).map_err(fail)? else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(fail)?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(ToolError::Failed(format!("{path} is larger than {MAX_FILE} bytes")));
        }
        Ok(Some(bytes))
    }

    /// The path beneath the folder. A path that names the folder itself is understood; any other
    /// absolute path is refused by the handle.
    fn relative(&self, path: &str) -> Result<PathBuf, ToolError> {
        if path.contains('\0') {
            return Err(ToolError::Invalid("a path has no NUL".to_owned()));
        }
        let path = Path::new(path);
        let path = path.strip_prefix(&self.root).unwrap_or(path);
        let parts: PathBuf = path.components().filter(|part| *part != Component::CurDir).collect();
        Ok(if parts.as_os_str().is_empty() { PathBuf::from(".") } else { parts })
    }
}

/// Opens what is a file and nothing else: opening a FIFO would wait for ever, and reading a
/// device may never end.
pub(in crate::tools) fn open_regular(dir: &Dir, path: &Path) -> io::Result<Option<File>> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let options = OpenOptions::new().read(true).custom_flags(flags).to_owned();
    let file = match dir.open_with(path, &options) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    if !kind.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    Ok(Some(file))
}

fn refuse_protected(path: &str, relative: &Path) -> Result<(), ToolError> {
    let is_protected = relative
        .components()
        .any(|part| PROTECTED.iter().any(|name| part.as_os_str().eq_ignore_ascii_case(name)));
    if is_protected {
        return Err(ToolError::Failed(format!("{path} is protected and cannot be written")));
    }
    Ok(())
}

/// A link may lead to what is protected under another name.
fn refuse_links(dir: &Dir, path: &str, parent: &Path) -> Result<(), ToolError> {
    let is_link =
        |part: &&Path| dir.symlink_metadata(part).is_ok_and(|metadata| metadata.is_symlink());
    let parts = parent.ancestors().filter(|part| !part.as_os_str().is_empty());
    match parts.into_iter().find(is_link) {
        Some(link) => Err(ToolError::Failed(format!("{path}: {} is a link", link.display()))),
        None => Ok(()),
    }
}

/// SHA-256.
pub fn hash(bytes: &[u8]) -> Vec<u8> {
    Sha256::digest(bytes).to_vec()
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err takes")]
pub(in crate::tools) fn failed(path: &str, error: io::Error) -> ToolError {
    const WORDS: [(ErrorKind, &str); 4] = [
        (ErrorKind::NotFound, "there is no such file or folder"),
        (ErrorKind::PermissionDenied, "it is outside of the workspace, or not allowed"),
        (ErrorKind::IsADirectory, "it is a folder"),
        (ErrorKind::NotADirectory, "it is not a folder"),
    ];
    let known = WORDS.iter().find(|(kind, _)| *kind == error.kind());
    let why = known.map_or_else(|| error.to_string(), |(_, words)| (*words).to_owned());
    ToolError::Failed(format!("{path}: {why}"))
}

#[cfg(test)]
mod tests;
