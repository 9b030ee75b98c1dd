//! The walk over the files under a starting point.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use cap_std::fs::{Dir, FileType};

use super::THREADS;
use super::filter::{Filter, FilterResult};
use super::origin::SearchOrigin;
use super::queue::Queue;
use super::rules::{GIT, Rules, makes_rules};
use super::watch::Watch;
use crate::tools::error::ToolError;
use crate::tools::workspace::or_itself;

/// The maximum number of files that one thread finds; limits memory.
const MAX_FILES: usize = 500_000;

/// A file that the walk has found.
#[derive(Debug)]
pub(crate) struct WalkedFile<'a> {
    /// The handle of the file's folder.
    pub(crate) folder: &'a Dir,
    /// The file's name.
    pub(crate) name: &'a OsStr,
    /// The file's path, relative to the workspace.
    pub(crate) path: PathBuf,
}

struct Job {
    path: PathBuf,
    rules: Arc<Rules>,
}

struct Walk<'a, F> {
    origin: &'a SearchOrigin,
    filter: &'a Filter,
    watch: &'a Watch,
    note: F,
}

/// Calls `note` for each regular file that passes the filter, in no defined order. Symbolic links
/// are not followed: each folder is opened relative to the workspace's handle. Folders that cannot
/// be opened are skipped.
pub(crate) fn walk<T: Send>(
    origin: &SearchOrigin,
    filter: &Filter,
    watch: &Watch,
    note: impl Fn(WalkedFile<'_>) -> Option<T> + Sync,
) -> Result<Vec<T>, ToolError> {
    let rules = Rules::above(&origin.root, &origin.start);
    let queue = Queue::new(Job { path: origin.start.clone(), rules });
    let walk = Walk { origin, filter, watch, note };
    let mut found = Vec::new();
    thread::scope(|scope| {
        let helpers: Vec<_> = (1..THREADS).map(|_| scope.spawn(|| walk.work(&queue))).collect();
        found.extend(walk.work(&queue)?);
        for helper in helpers {
            let more = helper.join();
            found.extend(more.map_err(|_| ToolError::Failed("the search stopped".to_owned()))??);
        }
        Ok(found)
    })
}

impl<T, F: Fn(WalkedFile<'_>) -> Option<T>> Walk<'_, F> {
    fn work(&self, queue: &Queue<Job>) -> Result<Vec<T>, ToolError> {
        let mut found = Vec::new();
        while let Some((job, mut guard)) = queue.take() {
            self.watch.check()?;
            self.folder(&job, &mut found, &mut guard.new);
            if found.len() > MAX_FILES {
                let why = "there are too many files; search a smaller folder";
                return Err(ToolError::Failed(why.to_owned()));
            }
        }
        Ok(found)
    }

    fn folder(&self, job: &Job, found: &mut Vec<T>, folders: &mut Vec<Job>) {
        let Ok(folder) = self.origin.root.open_dir(or_itself(&job.path)) else { return };
        let Ok(entries) = folder.entries() else { return };
        let entries: Vec<_> = entries
            .flatten()
            .filter_map(|entry| Some((entry.file_name(), entry.file_type().ok()?)))
            .collect();
        let rules = if entries.iter().any(|(name, _)| makes_rules(name)) {
            Rules::add(&job.rules, &folder, &job.path)
        } else {
            Arc::clone(&job.rules)
        };
        for (name, kind) in entries {
            let path = job.path.join(&name);
            if !self.passes(&rules, &path, &name, kind) {
                continue;
            }
            if kind.is_dir() {
                folders.push(Job { path, rules: Arc::clone(&rules) });
            } else if kind.is_file() {
                found.extend((self.note)(WalkedFile { folder: &folder, name: &name, path }));
            }
        }
    }

    /// Returns whether a path passes. The requested glob decides first, then the ignore files, then
    /// the file type and the rule for hidden files. A folder that the glob names passes, so that the
    /// files in it are found. The contents of `.git` never pass.
    fn passes(&self, rules: &Rules, path: &Path, name: &OsStr, kind: FileType) -> bool {
        let is_folder = kind.is_dir();
        if name == GIT {
            return false;
        }
        match self.filter.by_glob(path, is_folder) {
            FilterResult::Included => return true,
            FilterResult::Excluded => return false,
            FilterResult::NoMatch if is_folder && self.filter.names_folder(path) => return true,
            FilterResult::NoMatch => {}
        }
        let ruled = rules.filter_result(path, is_folder);
        let typed = match ruled {
            FilterResult::Excluded => return false,
            FilterResult::Included | FilterResult::NoMatch => self.filter.by_type(path, is_folder),
        };
        match (ruled, typed) {
            (_, FilterResult::Excluded) => false,
            (FilterResult::NoMatch, FilterResult::NoMatch) => !name.as_bytes().starts_with(b"."),
            _ => true,
        }
    }
}
