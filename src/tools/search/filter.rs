//! Filter of a search by glob and by file type, with the semantics of `rg`.

use std::borrow::Cow;
use std::path::Path;

use ignore::Match;
use ignore::overrides::{Override, OverrideBuilder};
use ignore::types::{Types, TypesBuilder};

use super::named_folders::NamedFolders;
use crate::tools::error::ToolError;
use crate::tools::workspace::Workspace;

/// The filter that the model requested. Ignore files are separate.
#[derive(Debug)]
pub(crate) struct Filter {
    globs: Override,
    named: NamedFolders,
    types: Types,
}

/// The result of a filter or an ignore file on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FilterResult {
    /// Included, even if the path is hidden.
    Included,
    /// Excluded.
    Excluded,
    /// No rule matches.
    NoMatch,
}

impl<T> From<Match<T>> for FilterResult {
    fn from(found: Match<T>) -> Self {
        match found {
            Match::None => Self::NoMatch,
            Match::Ignore(_) => Self::Excluded,
            Match::Whitelist(_) => Self::Included,
        }
    }
}

impl Filter {
    /// Creates a filter for paths under `folder`. A pattern without a slash matches names at any
    /// depth. An absolute pattern in the workspace is relative to the workspace.
    pub(crate) fn new(
        workspace: &Workspace,
        folder: &Path,
        glob: Option<&str>,
        kind: Option<&str>,
    ) -> Result<Self, ToolError> {
        let absolute = glob.and_then(|glob| workspace.relative_glob(glob));
        let folder = if absolute.is_some() { Path::new("") } else { folder };
        let glob = absolute.map_or(Cow::Borrowed(glob.unwrap_or_default()), Cow::Owned);
        let mut globs = OverrideBuilder::new(folder);
        if !glob.is_empty() {
            globs.add(&glob).map_err(|error| bad_glob(&error))?;
        }
        let mut types = TypesBuilder::new();
        if let Some(kind) = kind.filter(|kind| !kind.is_empty()) {
            types.add_defaults().select(kind);
        }
        Ok(Self {
            globs: globs.build().map_err(|error| bad_glob(&error))?,
            named: NamedFolders::of(folder, &glob),
            types: types.build().map_err(|error| ToolError::Invalid(error.to_string()))?,
        })
    }

    pub(super) fn by_glob(&self, path: &Path, is_folder: bool) -> FilterResult {
        self.globs.matched(path, is_folder).into()
    }

    /// Returns whether the glob names this folder.
    pub(super) fn names_folder(&self, path: &Path) -> bool {
        self.named.contains(path)
    }

    pub(super) fn by_type(&self, path: &Path, is_folder: bool) -> FilterResult {
        self.types.matched(path, is_folder).into()
    }
}

fn bad_glob(error: &ignore::Error) -> ToolError {
    ToolError::Invalid(format!("the pattern is not a glob: {error}"))
}
