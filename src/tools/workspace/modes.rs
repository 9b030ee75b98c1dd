//! The permissions of new files and folders.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

/// The permissions of new entries, before the umask of the process is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Modes {
    pub(super) file: u32,
    pub(super) folder: u32,
}

impl Modes {
    /// For the folders of the service: no other user has access.
    pub(super) const PRIVATE: Self = Self { file: 0o600, folder: 0o700 };
    /// For folders of the operator or a client, who choose the access of other users by the umask.
    pub(super) const SHARED: Self = Self { file: 0o666, folder: 0o777 };
}

/// Creates a folder that only this user can enter, with its missing parents.
pub fn create_private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(Modes::PRIVATE.folder).create(folder)
}
