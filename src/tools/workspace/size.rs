//! The size of a folder.

use std::io::{self, ErrorKind};
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, MetadataExt as _};

/// Adds up the sizes of the files in a folder that the service owns; 0 if it does not exist. Symbolic
/// links are not followed, and a file with several links counts once for each of them. Folders
/// without read permission are left out: commands of the model created the contents.
pub fn folder_size(folder: &Path) -> io::Result<u64> {
    let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else {
        return Err(ErrorKind::InvalidInput.into());
    };
    let parent = match Dir::open_ambient_dir(parent, ambient_authority()) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        parent => parent?,
    };
    let mut bytes = 0;
    let mut folders = Vec::new();
    match parent.symlink_metadata(name) {
        Ok(found) if found.is_dir() => folders.extend(readable(parent.open_dir(name))?),
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Ok(_) | Err(_) => {}
    }
    while let Some(folder) = folders.pop() {
        for entry in folder.entries()? {
            let Some(entry) = readable(entry)? else { continue };
            let Some(metadata) = readable(entry.metadata())? else { continue };
            if metadata.is_dir() {
                folders.extend(readable(entry.open_dir())?);
            } else if metadata.is_file() {
                bytes += metadata.size();
            }
        }
    }
    Ok(bytes)
}

/// Maps what was removed meanwhile, or cannot be read, to `None`.
fn readable<T>(opened: io::Result<T>) -> io::Result<Option<T>> {
    match opened {
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::NotADirectory
            ) =>
        {
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

    #[test]
    fn files_in_all_folders_count_and_links_are_not_followed() {
        let home = tempfile::TempDir::new().unwrap();
        let folder = home.path().join("own");
        assert_eq!(folder_size(&folder).unwrap(), 0);
        fs::create_dir_all(folder.join("a/b")).unwrap();
        fs::write(folder.join("one"), "1234").unwrap();
        fs::write(folder.join("a/b/two"), "12345").unwrap();
        fs::write(home.path().join("outside"), "outside").unwrap();
        symlink(home.path(), folder.join("a/link")).unwrap();
        symlink(home.path().join("outside"), folder.join("file-link")).unwrap();
        assert_eq!(folder_size(&folder).unwrap(), 9);
        symlink(&folder, home.path().join("link")).unwrap();
        assert_eq!(folder_size(&home.path().join("link")).unwrap(), 0);
    }
}
