//! Folders that may be of no session soon, or are of none yet.
//!
//! The database cannot remove a folder together with a session's row, nor make one. So a note is
//! written before the database decides, and taken away when the folder is as the database says.
//! What stays between the two, because the process died or nobody heard what became of a commit, is
//! found by the note: nobody has to guess from its name that a folder belongs to no session.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;
use std::time::Duration;

use super::remove_folder;
use crate::domain::ids::SessionId;

/// Where the notes are, beside the folders of sessions.
const NOTES: &str = ".leaving";

/// What was noted: these folders may have to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaving {
    /// The session that it is about, if there are several.
    pub root: SessionId,
    /// Which database knows whether they exist: folders may be shared by services that share no
    /// database.
    pub database: String,
    /// Whose folders.
    pub sessions: Vec<SessionId>,
}

impl Leaving {
    /// Writes the note, for good: it is on disk when this returns.
    pub fn note(&self, workspaces: &Path) -> io::Result<()> {
        let folder = workspaces.join(NOTES);
        fs::create_dir_all(&folder)?;
        let mut lines = format!("{}\n", self.database);
        for id in &self.sessions {
            lines.push_str(&id.to_string());
            lines.push('\n');
        }
        let mut file = File::create(folder.join(self.root.to_string()))?;
        file.write_all(lines.as_bytes())?;
        file.sync_all()?;
        File::open(&folder)?.sync_all()
    }

    /// Removes the folders of those that are gone: all that can be, and then it fails.
    pub fn remove(&self, workspaces: &Path, gone: &[SessionId]) -> io::Result<()> {
        let removals = gone.iter().map(|id| remove_folder(&workspaces.join(id.to_string())));
        removals.fold(Ok(()), Result::and)
    }

    /// Removes the folders of those that are gone, and then the note, which else stays.
    pub fn end(&self, workspaces: &Path, gone: &[SessionId]) -> io::Result<()> {
        self.remove(workspaces, gone)?;
        self.forget(workspaces)
    }

    /// Takes the note away.
    pub fn forget(&self, workspaces: &Path) -> io::Result<()> {
        match fs::remove_file(workspaces.join(NOTES).join(self.root.to_string())) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Notes for a database that are older than this, and at most so many of them: in the order of their
/// sessions, those behind this one first, so that notes which stay hide no others for good. What
/// cannot be read as one is left.
pub fn list_leaving(
    workspaces: &Path,
    database: &str,
    age: Duration,
    (after, limit): (Option<SessionId>, usize),
) -> io::Result<Vec<Leaving>> {
    let folder = workspaces.join(NOTES);
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut roots = Vec::new();
    for entry in entries {
        roots.extend(entry?.file_name().to_str().and_then(|name| name.parse::<SessionId>().ok()));
    }
    roots.sort_unstable();
    let seen = roots.partition_point(|root| Some(*root) <= after);
    roots.rotate_left(seen);
    let mut found = Vec::new();
    for root in roots {
        if found.len() >= limit {
            break;
        }
        let path = folder.join(root.to_string());
        if is_older(&path, age)? {
            found.extend(read(root, &path).filter(|leaving| leaving.database == database));
        }
    }
    Ok(found)
}

fn is_older(path: &Path, age: Duration) -> io::Result<bool> {
    let written = match fs::symlink_metadata(path) {
        // Another process was faster.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        metadata => metadata?.modified()?,
    };
    // One of the future is not old.
    Ok(written.elapsed().is_ok_and(|elapsed| elapsed > age))
}

fn read(root: SessionId, path: &Path) -> Option<Leaving> {
    let text = fs::read_to_string(path).ok()?;
    let (database, ids) = text.split_once('\n')?;
    let sessions = ids.lines().map(str::parse).collect::<Result<_, _>>().ok()?;
    Some(Leaving { root, database: database.to_owned(), sessions })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::slice::from_ref;
    use std::time::SystemTime;

    const HERE: &str = "1/2";
    const HOUR: Duration = Duration::from_hours(1);
    const MINUTE: Duration = Duration::from_mins(1);
    const ALL: (Option<SessionId>, usize) = (None, 10);

    fn age(path: &Path, age: Duration) {
        let written = SystemTime::now() - age;
        File::options().append(true).open(path).unwrap().set_modified(written).unwrap();
    }

    fn leaving() -> Leaving {
        let sessions = vec![SessionId::new(), SessionId::new()];
        Leaving { root: sessions[0], database: HERE.to_owned(), sessions }
    }

    #[test]
    fn only_old_notes_are_found_and_what_is_none_is_left() {
        let home = tempfile::TempDir::new().unwrap();
        let workspaces = home.path().join("workspaces");
        assert_eq!(list_leaving(&workspaces, HERE, HOUR, ALL).unwrap(), []);
        let (old, young, torn) = (leaving(), leaving(), leaving());
        let path = |leaving: &Leaving| workspaces.join(NOTES).join(leaving.root.to_string());
        for leaving in [&old, &young, &torn] {
            leaving.note(&workspaces).unwrap();
        }
        fs::write(path(&torn), "1/2\nses_01").unwrap();
        age(&path(&old), 61 * MINUTE);
        age(&path(&torn), 61 * MINUTE);
        age(&path(&young), 59 * MINUTE);
        assert_eq!(list_leaving(&workspaces, HERE, HOUR, ALL).unwrap(), from_ref(&old));
        assert_eq!(list_leaving(&workspaces, HERE, Duration::ZERO, (None, 1)).unwrap().len(), 1);

        // Written again it is young again.
        old.note(&workspaces).unwrap();
        assert_eq!(list_leaving(&workspaces, HERE, HOUR, ALL).unwrap(), []);
        old.forget(&workspaces).unwrap();
        old.forget(&workspaces).unwrap();
        assert!(!path(&old).exists() && path(&young).exists());
    }

    #[test]
    fn a_note_goes_when_the_folders_have_gone() {
        let home = tempfile::TempDir::new().unwrap();
        let (workspaces, leaving) = (home.path().join("workspaces"), leaving());
        leaving.note(&workspaces).unwrap();
        let folder = |index: usize| workspaces.join(leaving.sessions[index].to_string());
        fs::create_dir_all(folder(1).join("a")).unwrap();
        // The name of no folder that can be removed.
        let blocked = home.path().join("blocked");
        fs::write(&blocked, "").unwrap();
        assert!(leaving.end(&blocked, &leaving.sessions).is_err());
        let noted = || list_leaving(&workspaces, HERE, Duration::ZERO, ALL).unwrap();
        assert_eq!((noted(), folder(1).exists()), (vec![leaving.clone()], true));
        leaving.end(&workspaces, &leaving.sessions).unwrap();
        assert_eq!((noted(), folder(1).exists()), (vec![], false));
    }
    #[test]
    fn notes_are_listed_in_turn() {
        let home = tempfile::TempDir::new().unwrap();
        let mut all: Vec<_> = (0..5).map(|_| leaving()).collect();
        all.sort_by_key(|leaving| leaving.root);
        for leaving in &all {
            leaving.note(home.path()).unwrap();
        }
        fs::write(home.path().join(NOTES).join("no session"), "").unwrap();
        let list = |after| {
            let found = list_leaving(home.path(), HERE, Duration::ZERO, (after, 2)).unwrap();
            found.into_iter().map(|leaving| leaving.root).collect::<Vec<_>>()
        };
        let roots: Vec<SessionId> = all.iter().map(|leaving| leaving.root).collect();
        assert_eq!(list(None), roots[..2]);
        assert_eq!(list(Some(roots[1])), roots[2..4]);
        assert_eq!(list(Some(roots[3])), [roots[4], roots[0]]);
        // Somebody has removed it.
        all[2].forget(home.path()).unwrap();
        assert_eq!(list(Some(roots[2])), roots[3..]);
    }
}
