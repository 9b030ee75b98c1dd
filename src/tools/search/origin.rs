//! The starting point of a search.

use std::path::{Path, PathBuf};

use cap_std::fs::Dir;

use crate::tools::error::ToolError;
use crate::tools::workspace::{Workspace, failed, or_itself};

/// The starting point of a search in a workspace: a folder to walk, or one file.
#[derive(Debug)]
pub(crate) struct SearchOrigin {
    /// The workspace's folder. A search opens all files relative to it.
    pub(crate) root: Dir,
    /// The path of the starting point, relative to the workspace; empty for the workspace itself.
    pub(crate) start: PathBuf,
    /// If set, the starting point is a folder.
    pub(crate) is_folder: bool,
}

impl SearchOrigin {
    /// Opens the starting point that the model names.
    pub(crate) fn new(workspace: &Workspace, path: &str) -> Result<Self, ToolError> {
        let (root, start) = workspace.locate(path)?;
        let metadata = root.metadata(or_itself(&start)).map_err(|error| failed(path, error))?;
        Ok(Self { root, start, is_folder: metadata.is_dir() })
    }

    /// Returns the folder that patterns are relative to.
    pub(crate) fn folder(&self) -> &Path {
        if self.is_folder { &self.start } else { self.start.parent().unwrap_or(&self.start) }
    }
}
