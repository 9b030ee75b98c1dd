//! Which files a search wants: by glob and by type, with the meanings that `rg` gives them.

use std::path::Path;

use ignore::Match;
use ignore::overrides::{Override, OverrideBuilder};
use ignore::types::{Types, TypesBuilder};

use crate::tools::ToolError;

/// What the model asked for, whatever the ignore files say.
#[derive(Debug)]
pub(crate) struct Filter {
    globs: Override,
    types: Types,
}

/// What is said of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is wanted, even where it is hidden.
    Wanted,
    /// It is not.
    Unwanted,
    /// Nothing.
    Unknown,
}

impl<T> From<Match<T>> for Verdict {
    fn from(found: Match<T>) -> Self {
        match found {
            Match::None => Self::Unknown,
            Match::Ignore(_) => Self::Unwanted,
            Match::Whitelist(_) => Self::Wanted,
        }
    }
}

impl Filter {
    /// A filter beneath this folder. A pattern without a slash fits names at any depth.
    pub(crate) fn new(
        folder: &Path,
        glob: Option<&str>,
        kind: Option<&str>,
    ) -> Result<Self, ToolError> {
        let mut globs = OverrideBuilder::new(folder);
        if let Some(glob) = glob.filter(|glob| !glob.is_empty()) {
            globs.add(glob).map_err(|error| bad_glob(&error))?;
        }
        let mut types = TypesBuilder::new();
        if let Some(kind) = kind.filter(|kind| !kind.is_empty()) {
            types.add_defaults().select(kind);
        }
        Ok(Self {
            globs: globs.build().map_err(|error| bad_glob(&error))?,
            types: types.build().map_err(|error| ToolError::Invalid(error.to_string()))?,
        })
    }

    pub(super) fn by_glob(&self, path: &Path, is_folder: bool) -> Verdict {
        self.globs.matched(path, is_folder).into()
    }

    pub(super) fn by_type(&self, path: &Path, is_folder: bool) -> Verdict {
        self.types.matched(path, is_folder).into()
    }
}

fn bad_glob(error: &ignore::Error) -> ToolError {
    ToolError::Invalid(format!("the pattern is not a glob: {error}"))
}
