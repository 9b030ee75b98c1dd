//! Functions that open files and folders relative to a handle.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, File, OpenOptions, OpenOptionsExt as _};
use rustix::fs::{Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;

use super::modes::Modes;

/// The treatment of a folder in the path that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// It is created with these permissions.
    Create(Modes),
    Fail,
}

/// Opens a regular file. Other kinds are refused: opening a FIFO would block without limit, and
/// reading a device may never end.
pub(in crate::tools) fn open_regular(dir: &Dir, path: &Path) -> io::Result<Option<File>> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let options = OpenOptions::new().read(true).custom_flags(flags).to_owned();
    let file = match dir.open_with(path, &options) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        // The error of opening a socket.
        Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
            return Err(io::Error::other("not a regular file"));
        }
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

/// Opens a folder relative to another one, component by component, and follows no symbolic link. A
/// link therefore cannot give a protected folder another name.
pub(super) fn open_folder(top: Dir, path: &Path, missing: Missing) -> io::Result<Dir> {
    let mut folder = top;
    let mut way = PathBuf::new();
    for name in path.components() {
        let name = name.as_os_str();
        way.push(name);
        folder = match step(&folder, name, &way) {
            Err(error) if error.kind() == ErrorKind::NotFound => match missing {
                Missing::Create(modes) => {
                    create(&folder, name, modes)?;
                    step(&folder, name, &way)?
                }
                Missing::Fail => return Err(error),
            },
            opened => opened?,
        };
    }
    // A handle opened with `O_PATH` cannot be read, so the folder is opened again.
    folder.open_dir(".")
}

/// Creates a folder, unless another process has just created it.
fn create(parent: &Dir, name: &OsStr, modes: Modes) -> io::Result<()> {
    match mkdirat(parent, name, Mode::from_raw_mode(modes.folder)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn step(folder: &Dir, name: &OsStr, way: &Path) -> io::Result<Dir> {
    // `O_PATH` requires only the search permission for the folder.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(folder, name, flags, Mode::empty()).map(Dir::from).map_err(|error| {
        let is_link = folder.symlink_metadata(name).is_ok_and(|found| found.is_symlink());
        if is_link {
            io::Error::other(format!("{} is a symbolic link", way.display()))
        } else {
            error.into()
        }
    })
}
