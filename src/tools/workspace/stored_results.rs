//! Storage of results that are too long for the model, as files that the model can read.

use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};

use super::{Draft, MAX_FILE, Missing, Modes, Workspace, failed, open_folder, put};
use crate::tools::error::ToolError;

const OURS: &str = ".twostep";
const RESULTS: &str = "results";
/// The maximum number of stored results in a workspace.
const MAX_STORED: usize = 32;

impl Workspace {
    /// Stores the result of a call as a file and returns its path. Removes the oldest stored
    /// results if there are more than `MAX_STORED`.
    pub(in crate::tools) fn store_result(
        &self,
        text: &str,
        draft: &Draft,
    ) -> Result<String, ToolError> {
        if text.len() > MAX_FILE {
            return Err(ToolError::Failed("the result is too large to be stored".to_owned()));
        }
        let name = draft.call_name();
        let path = format!("{OURS}/{RESULTS}/{name}");
        let stored = self.dir().and_then(|dir| {
            let fail = |error| failed(&path, error);
            let modes = self.modes();
            let create = Missing::Create(modes);
            let ours = open_folder(dir, Path::new(OURS), create).map_err(fail)?;
            exclude_from_git(&ours, modes).map_err(fail)?;
            let results = open_folder(ours, Path::new(RESULTS), create).map_err(fail)?;
            remove_oldest(&results).map_err(fail)?;
            put((&results, modes), Path::new(&name), text.as_bytes(), draft, || true).map_err(fail)
        });
        stored.map(|()| path)
    }
}

/// Excludes the folder from commits and searches.
fn exclude_from_git(ours: &Dir, modes: Modes) -> io::Result<()> {
    let ignore = Path::new(".gitignore");
    if ours.symlink_metadata(ignore).is_ok() {
        return Ok(());
    }
    let options = OpenOptions::new().write(true).create_new(true).mode(modes.file).to_owned();
    match ours.open_with(ignore, &options) {
        // A concurrent call has created it.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        file => file?.write_all(b"*\n"),
    }
}

fn remove_oldest(results: &Dir) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in results.entries()? {
        let entry = entry?;
        // A concurrent call may have removed the file.
        if let Ok(modified) = entry.metadata().and_then(|metadata| metadata.modified()) {
            files.push((modified.into_std(), entry.file_name()));
        }
    }
    files.sort();
    let excess = (files.len() + 1).saturating_sub(MAX_STORED);
    for (_, name) in files.into_iter().take(excess) {
        match results.remove_file(name) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
