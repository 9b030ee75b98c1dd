//! The ignore files of a workspace, in the order of precedence of `rg --no-require-git`: a
//! `.gitignore` applies outside of repositories too.
//!
//! Ignore files above the workspace and those of the service's operating system user are not read.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::Dir;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::filter::FilterResult;
use crate::tools::workspace::{open_regular, or_itself};

/// The number of bytes that are read of an ignore file.
const MAX_IGNORE_FILE: u64 = 1024 * 1024;
/// The folder in which git stores a repository.
pub(super) const GIT: &str = ".git";
/// The kinds of ignore files in descending precedence. Those of git are last.
const FILES: [&str; 4] = [".rgignore", ".ignore", ".gitignore", ".git/info/exclude"];
const FIRST_OF_GIT: usize = 2;

/// The rules of a folder. Folders without rules of their own share those of their parent.
#[derive(Debug, Default)]
pub(super) struct Rules {
    parent: Option<Arc<Self>>,
    /// If set, the folder is the root of a repository, and git rules of parent folders do not
    /// apply.
    has_git: bool,
    files: [Option<Gitignore>; FILES.len()],
}

/// Returns whether an entry of this name gives its folder rules of its own.
pub(super) fn makes_rules(name: &std::ffi::OsStr) -> bool {
    name == GIT || FILES.iter().any(|file| name == *file)
}

impl Rules {
    /// Returns the rules of a folder with ignore files or a repository.
    pub(super) fn add(parent: &Arc<Self>, folder: &Dir, path: &Path) -> Arc<Self> {
        Arc::new(Self {
            parent: Some(Arc::clone(parent)),
            has_git: folder.symlink_metadata(GIT).is_ok(),
            files: FILES.map(|file| read(folder, path, file)),
        })
    }

    /// Returns the rules of a folder's parent.
    pub(super) fn above(root: &Dir, path: &Path) -> Arc<Self> {
        let mut folders: Vec<&Path> = path.ancestors().skip(1).collect();
        folders.reverse();
        let mut rules = Arc::new(Self::default());
        for path in folders {
            if let Ok(folder) = root.open_dir(or_itself(path)) {
                rules = Self::add(&rules, &folder, path);
            }
        }
        rules
    }

    /// Returns the result for a path. Among files of one kind, the deepest one decides. Among
    /// kinds, the one with the higher precedence decides at any depth.
    pub(super) fn filter_result(&self, path: &Path, is_folder: bool) -> FilterResult {
        let mut results = [FilterResult::NoMatch; FILES.len()];
        let mut saw_git = false;
        let mut next = Some(self);
        while let Some(rules) = next {
            let kinds = results.iter_mut().zip(&rules.files).enumerate();
            for (kind, (result, file)) in kinds {
                let is_git = kind >= FIRST_OF_GIT;
                if *result != FilterResult::NoMatch || is_git && saw_git {
                    continue;
                }
                if let Some(file) = file {
                    *result = file.matched(path, is_folder).into();
                }
            }
            saw_git |= rules.has_git;
            next = rules.parent.as_deref();
        }
        let first = results.into_iter().find(|result| *result != FilterResult::NoMatch);
        first.unwrap_or(FilterResult::NoMatch)
    }
}

/// Reads an ignore file. A missing, unreadable or empty file has no rules.
fn read(folder: &Dir, path: &Path, name: &str) -> Option<Gitignore> {
    let file = open_regular(folder, Path::new(name)).ok()??;
    let mut bytes = Vec::new();
    file.take(MAX_IGNORE_FILE).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let mut builder = GitignoreBuilder::new(path);
    for line in text.trim_start_matches('\u{feff}').lines() {
        // Invalid patterns are skipped.
        let _ = builder.add_line(None::<PathBuf>, line);
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}
