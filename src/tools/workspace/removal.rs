//! Recursive removal of folders.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, Permissions, PermissionsExt as _};

/// Removes a folder that the service owns, if it exists. Symbolic links are removed and never
/// followed, because commands of the model created the contents.
pub fn remove_folder(folder: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else {
        return Err(ErrorKind::InvalidInput.into());
    };
    let parent = match Dir::open_ambient_dir(parent, ambient_authority()) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        parent => parent?,
    };
    match parent.symlink_metadata(name) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Ok(found) if !found.is_dir() => return parent.remove_file(name),
        Err(error) => return Err(error),
        Ok(_) => {}
    }
    match parent.remove_dir_all(name) {
        // A command may have removed the owner's write permission from a folder.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            grant_owner_access(&parent, name)?;
            parent.remove_dir_all(name)
        }
        removed => removed,
    }
}

/// Gives the owner read, write and search permission for a folder and all folders under it.
fn grant_owner_access(parent: &Dir, name: &OsStr) -> io::Result<()> {
    parent.set_permissions(name, Permissions::from_mode(0o700))?;
    let folder = parent.open_dir(name)?;
    for entry in folder.entries()? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            grant_owner_access(&folder, &entry.file_name())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn read_only_folders_are_removed_and_links_are_not_followed() {
        let home = tempfile::TempDir::new().unwrap();
        let (folder, outside) = (home.path().join("own"), home.path().join("outside"));
        fs::create_dir_all(folder.join("a/b")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept.txt"), "kept").unwrap();
        fs::write(folder.join("a/b/file"), "x").unwrap();
        symlink(&outside, folder.join("a/link")).unwrap();
        for locked in ["a/b", "a"] {
            fs::set_permissions(folder.join(locked), fs::Permissions::from_mode(0o500)).unwrap();
        }
        remove_folder(&folder).unwrap();
        assert!(!folder.exists());
        assert_eq!(fs::read_to_string(outside.join("kept.txt")).unwrap(), "kept");

        symlink(&outside, &folder).unwrap();
        remove_folder(&folder).unwrap();
        assert!(folder.symlink_metadata().is_err());
        assert!(outside.join("kept.txt").exists());
        remove_folder(&folder).unwrap();
    }
}
