//! Garbage collection of session folders (write-ahead notes).
//!
//! The database cannot create or remove a folder in the transaction that creates or removes the
//! session's row. Therefore a note is written before the transaction, and removed when the folder
//! matches the database. If the process dies in between, or the outcome of a commit is unknown, the
//! note remains, and a later collection finds the folder by it. No folder is removed because of its
//! name alone.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;
use std::time::Duration;

use super::remove_folder;
use crate::domain::ids::SessionId;

/// The folder of the notes, next to the folders of sessions.
const NOTES: &str = ".leaving";

/// A note: the folders that may have to be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaving {
    /// The root session of the sessions.
    pub root: SessionId,
    /// The identity of the database that stores the sessions. Services with different databases may
    /// share a folder.
    pub database: String,
    /// The sessions that own the folders.
    pub sessions: Vec<SessionId>,
}

impl Leaving {
    /// Writes the note. It is on disk when this returns.
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

    /// Removes the folders of the sessions in `gone`. After an error it continues with the others,
    /// and then returns an error.
    pub fn remove(&self, workspaces: &Path, gone: &[SessionId]) -> io::Result<()> {
        let removals = gone.iter().map(|id| remove_folder(&workspaces.join(id.to_string())));
        removals.fold(Ok(()), Result::and)
    }

    /// Removes the folders of the sessions in `gone`, and then the note. After an error the note
    /// remains.
    pub fn end(&self, workspaces: &Path, gone: &[SessionId]) -> io::Result<()> {
        self.remove(workspaces, gone)?;
        self.forget(workspaces)
    }

    /// Removes the note.
    pub fn forget(&self, workspaces: &Path) -> io::Result<()> {
        match fs::remove_file(workspaces.join(NOTES).join(self.root.to_string())) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Lists the notes of a database that are older than `age`, at most `limit` of them. The order is
/// that of the session IDs, starting after `after` and wrapping around, so that notes that remain
/// do not hide others. Files that are not notes are ignored.
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
        // Another process has removed the note.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        metadata => metadata?.modified()?,
    };
    // A modification time in the future counts as new.
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
    fn only_old_notes_are_listed_and_other_files_are_ignored() {
        let home = tempfile::TempDir::new().unwrap();
        let workspaces = home.path().join("workspaces");
        assert_eq!(list_leaving(&workspaces, HERE, HOUR, ALL).unwrap(), []);
        let (old, young, truncated) = (leaving(), leaving(), leaving());
        let path = |leaving: &Leaving| workspaces.join(NOTES).join(leaving.root.to_string());
        for leaving in [&old, &young, &truncated] {
            leaving.note(&workspaces).unwrap();
        }
        fs::write(path(&truncated), "1/2\nses_01").unwrap();
        age(&path(&old), 61 * MINUTE);
        age(&path(&truncated), 61 * MINUTE);
        age(&path(&young), 59 * MINUTE);
        assert_eq!(list_leaving(&workspaces, HERE, HOUR, ALL).unwrap(), from_ref(&old));
        assert_eq!(list_leaving(&workspaces, HERE, Duration::ZERO, (None, 1)).unwrap().len(), 1);

        // Writing the note again resets its age.
        old.note(&workspaces).unwrap();
        assert_eq!(list_leaving(&workspaces, HERE, HOUR, ALL).unwrap(), []);
        old.forget(&workspaces).unwrap();
        old.forget(&workspaces).unwrap();
        assert!(!path(&old).exists() && path(&young).exists());
    }

    #[test]
    fn a_note_is_removed_after_its_folders() {
        let home = tempfile::TempDir::new().unwrap();
        let (workspaces, leaving) = (home.path().join("workspaces"), leaving());
        leaving.note(&workspaces).unwrap();
        let folder = |index: usize| workspaces.join(leaving.sessions[index].to_string());
        fs::create_dir_all(folder(1).join("a")).unwrap();
        // A file in place of the workspaces folder, so that the removal fails.
        let blocked = home.path().join("blocked");
        fs::write(&blocked, "").unwrap();
        assert!(leaving.end(&blocked, &leaving.sessions).is_err());
        let noted = || list_leaving(&workspaces, HERE, Duration::ZERO, ALL).unwrap();
        assert_eq!((noted(), folder(1).exists()), (vec![leaving.clone()], true));
        leaving.end(&workspaces, &leaving.sessions).unwrap();
        assert_eq!((noted(), folder(1).exists()), (vec![], false));
    }
    #[test]
    fn notes_are_listed_in_rotation() {
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
        // The note after the cursor has been removed.
        all[2].forget(home.path()).unwrap();
        assert_eq!(list(Some(roots[2])), roots[3..]);
    }
}
