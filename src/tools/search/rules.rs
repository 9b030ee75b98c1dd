//! What the ignore files of a workspace say, in the order of precedence that `rg` has.
//!
//! Ignore files above the workspace and those of the service's own user are never looked at.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::Dir;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::filter::Verdict;
use crate::tools::workspace::{open_regular, or_itself};

/// The largest ignore file that is read.
const MAX_IGNORE_FILE: u64 = 1024 * 1024;
/// Where git keeps what is its own.
pub(super) const GIT: &str = ".git";
/// The kinds of ignore files, the stronger ones first; those of git last.
const FILES: [&str; 4] = [".rgignore", ".ignore", ".gitignore", ".git/info/exclude"];
const FIRST_OF_GIT: usize = 2;

/// The rules that hold in a folder. Folders that add nothing share their parent's.
#[derive(Debug, Default)]
pub(super) struct Rules {
    parent: Option<Arc<Self>>,
    /// Whether a repository begins here, so that git's rules from above end.
    has_git: bool,
    /// Whether there is a repository here or above: without one git's rules do not hold.
    in_git: bool,
    files: [Option<Gitignore>; FILES.len()],
}

/// Whether a folder has something that makes rules, told by the name of an entry.
pub(super) fn makes_rules(name: &std::ffi::OsStr) -> bool {
    name == GIT || FILES.iter().any(|file| name == *file)
}

impl Rules {
    /// The rules of a folder that has something that makes rules.
    pub(super) fn add(parent: &Arc<Self>, folder: &Dir, path: &Path) -> Arc<Self> {
        let has_git = folder.symlink_metadata(GIT).is_ok();
        Arc::new(Self {
            parent: Some(Arc::clone(parent)),
            has_git,
            in_git: has_git || parent.in_git,
            files: FILES.map(|file| read(folder, path, file)),
        })
    }

    /// The rules that hold in a folder's parent.
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

    /// What is said of a path. Of two files of one kind the deeper one wins, and of two kinds the
    /// stronger one, wherever it is.
    pub(super) fn verdict(&self, path: &Path, is_folder: bool) -> Verdict {
        let mut verdicts = [Verdict::Unknown; FILES.len()];
        let mut saw_git = false;
        let mut next = Some(self);
        while let Some(rules) = next {
            let kinds = verdicts.iter_mut().zip(&rules.files).enumerate();
            for (kind, (verdict, file)) in kinds {
                let is_git = kind >= FIRST_OF_GIT;
                if *verdict != Verdict::Unknown || is_git && (saw_git || !self.in_git) {
                    continue;
                }
                if let Some(file) = file {
                    *verdict = file.matched(path, is_folder).into();
                }
            }
            saw_git |= rules.has_git;
            next = rules.parent.as_deref();
        }
        let said = verdicts.into_iter().find(|verdict| *verdict != Verdict::Unknown);
        said.unwrap_or(Verdict::Unknown)
    }
}

/// An ignore file, if there is one. What cannot be read or understood makes no rules.
fn read(folder: &Dir, path: &Path, name: &str) -> Option<Gitignore> {
    let file = open_regular(folder, Path::new(name)).ok()??;
    let mut bytes = Vec::new();
    file.take(MAX_IGNORE_FILE).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let mut builder = GitignoreBuilder::new(path);
    for line in text.trim_start_matches('\u{feff}').lines() {
        // A line that is no pattern says nothing; the others do.
        let _ = builder.add_line(None::<PathBuf>, line);
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}
