//! The folders in which clients may create sessions.

use std::path::{Component, Path, PathBuf};

use super::Workspace;

/// Folders that the operator has configured. A session may work in one of them or in a folder under
/// one of them.
#[derive(Debug, Clone, Default)]
pub struct Roots(Vec<PathBuf>);

impl Roots {
    /// Creates the list from canonical paths.
    pub fn new(folders: Vec<PathBuf>) -> Self {
        Self(folders)
    }

    /// Returns whether a session may work in the folder that a client names.
    pub fn allow(&self, named: &str) -> bool {
        let path = Path::new(named);
        let is_plain =
            |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
        !named.contains('\0')
            && path.components().all(is_plain)
            && self.0.iter().any(|root| path.starts_with(root))
            && Workspace::named(path.to_owned()).open().is_ok()
    }
}
