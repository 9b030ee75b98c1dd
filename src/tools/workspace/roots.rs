//! The folders among which clients may choose.

use std::path::{Component, Path, PathBuf};

use super::Workspace;

/// Folders of the operator's: a session may work in one of them, or in a folder beneath one.
#[derive(Debug, Clone, Default)]
pub struct Roots(Vec<PathBuf>);

impl Roots {
    /// The folders by their real paths.
    pub fn new(folders: Vec<PathBuf>) -> Self {
        Self(folders)
    }

    /// Whether a session may work in the folder that a client names.
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
