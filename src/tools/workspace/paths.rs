//! What the model may call a file: relative to the workspace, or by the workspace's full path, or
//! by the name under which programs in the sandbox see it.

use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use super::failed;
use crate::tools::ToolError;

/// Where programs in the sandbox see the workspace.
pub const ALIAS: &str = "/workspace";

/// A path beneath the workspace, of names only; empty for the workspace itself.
///
/// `..` goes back by name, not by what a link leads to.
pub(super) fn beneath(root: &Path, path: &str) -> Result<PathBuf, ToolError> {
    if path.contains('\0') {
        return Err(ToolError::Invalid("a path has no NUL".to_owned()));
    }
    let outside = || failed(path, ErrorKind::PermissionDenied.into());
    let given = Path::new(path);
    let relative =
        if given.is_absolute() { inner(root, given).ok_or_else(outside)? } else { given };
    let mut names = PathBuf::new();
    for part in relative.components() {
        match part {
            Component::Normal(name) => names.push(name),
            Component::CurDir => {}
            Component::ParentDir if names.pop() => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(outside());
            }
        }
    }
    Ok(names)
}

/// A folder without links; also one that is not there yet, whose links are then all above it.
pub(super) fn real(root: &Path) -> Option<PathBuf> {
    root.ancestors().find_map(|above| {
        let rest = root.strip_prefix(above).ok()?;
        let real = above.canonicalize().ok()?;
        // To join nothing would add a slash.
        Some(if rest.as_os_str().is_empty() { real } else { real.join(rest) })
    })
}

/// What of an absolute path is beneath the workspace.
fn inner<'a>(root: &Path, path: &'a Path) -> Option<&'a Path> {
    let really = || path.strip_prefix(real(root)?).ok();
    path.strip_prefix(root).ok().or_else(really).or_else(|| path.strip_prefix(ALIAS).ok())
}
