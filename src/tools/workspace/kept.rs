//! Results that are too long for the model, kept where it can read them.

use std::io::{self, ErrorKind};
use std::path::Path;

use cap_std::fs::Dir;

use super::{Draft, MAX_FILE, Missing, Workspace, failed, open_folder, put};
use crate::tools::ToolError;

const OURS: &str = ".twostep";
const RESULTS: &str = "results";
/// Results that are kept of all calls.
const MAX_KEPT: usize = 32;

impl Workspace {
    /// Keeps the result of a call as a file, and says where. The oldest ones make room for it.
    pub(in crate::tools) fn keep(&self, text: &str, draft: &Draft) -> Result<String, ToolError> {
        if text.len() > MAX_FILE {
            return Err(ToolError::Failed("the result is too large to be kept".to_owned()));
        }
        let name = draft.call_name();
        let path = format!("{OURS}/{RESULTS}/{name}");
        let kept = self.dir().and_then(|dir| {
            let fail = |error| failed(&path, error);
            let ours = open_folder(dir, Path::new(OURS), Missing::IsMade).map_err(fail)?;
            leave_to_nobody(&ours).map_err(fail)?;
            let results = open_folder(ours, Path::new(RESULTS), Missing::IsMade).map_err(fail)?;
            make_room(&results).map_err(fail)?;
            put(&results, Path::new(&name), text.as_bytes(), draft, || true).map_err(fail)
        });
        kept.map(|()| path)
    }
}

/// Keeps the folder out of commits and searches.
fn leave_to_nobody(ours: &Dir) -> io::Result<()> {
    let ignore = Path::new(".gitignore");
    if ours.symlink_metadata(ignore).is_ok() {
        return Ok(());
    }
    ours.write(ignore, "*\n")
}

fn make_room(results: &Dir) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in results.entries()? {
        let entry = entry?;
        // One that another call has just removed is not in the way.
        if let Ok(modified) = entry.metadata().and_then(|metadata| metadata.modified()) {
            files.push((modified.into_std(), entry.file_name()));
        }
    }
    files.sort();
    let excess = (files.len() + 1).saturating_sub(MAX_KEPT);
    for (_, name) in files.into_iter().take(excess) {
        match results.remove_file(name) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
