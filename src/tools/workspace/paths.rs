//! Paths that the model may use: relative to the workspace, under the workspace's absolute path, or
//! under the path at which the sandbox mounts the workspace.

use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use super::failed;
use crate::tools::error::ToolError;

/// The path at which programs in the sandbox see the workspace.
pub const ALIAS: &str = "/workspace";

/// Returns a path relative to the workspace that consists of names only; empty for the workspace
/// itself.
///
/// `..` removes the preceding name. It is not resolved through symbolic links.
pub(super) fn relative_path(root: &Path, path: &str) -> Result<PathBuf, ToolError> {
    if path.contains('\0') {
        return Err(ToolError::Invalid("the path has a NUL character".to_owned()));
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

/// Resolves the symbolic links of a folder. The folder may not exist yet; then its existing
/// ancestors are resolved.
pub(super) fn real(root: &Path) -> Option<PathBuf> {
    root.ancestors().find_map(|above| {
        let rest = root.strip_prefix(above).ok()?;
        let real = above.canonicalize().ok()?;
        // Joining an empty path would add a slash.
        Some(if rest.as_os_str().is_empty() { real } else { real.join(rest) })
    })
}

/// Returns the part of an absolute path that is relative to the workspace.
fn inner<'a>(root: &Path, path: &'a Path) -> Option<&'a Path> {
    let really = || path.strip_prefix(real(root)?).ok();
    path.strip_prefix(root).ok().or_else(really).or_else(|| path.strip_prefix(ALIAS).ok())
}

/// Returns the part of an absolute glob after the path of the workspace.
pub(super) fn relative_glob(roots: &[PathBuf], glob: &str) -> Option<String> {
    let (not, path) = glob.strip_prefix('!').map_or(("", glob), |path| ("!", path));
    let mut roots = roots.iter().filter_map(|root| root.to_str()).chain([ALIAS]);
    let inner = roots.find_map(|root| path.strip_prefix(root).filter(|rest| rest.starts_with('/')));
    inner.map(|inner| format!("{not}{inner}"))
}
