//! Garbage collection of session folders (write-ahead notes).
//!
//! The database cannot create or remove a folder in the transaction that creates or removes the
//! session's row. Therefore a note is written before the transaction, and removed when the folder
//! matches the database. If the process dies in between, or the outcome of a commit is unknown, the
//! note remains, and a later collection finds the folder by it. No folder is removed because of its
//! name alone.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use super::{create_private_folder, remove_folder};
use crate::domain::ids::SessionId;

/// The folder of the notes, next to the folders of sessions.
const NOTES: &str = ".leaving";

/// A removal note: the folders that may have to be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovalNote {
    /// The root session of the sessions.
    pub root: SessionId,
    /// The identity of the database that stores the sessions. Services with different databases may
    /// share a folder.
    pub database: String,
    /// The sessions that own the folders.
    pub sessions: Vec<SessionId>,
}

/// The removal notes that a collection reads.
#[derive(Debug, Clone, Copy)]
pub struct NoteRange {
    /// The minimum age.
    pub age: Duration,
    /// The last note of the previous collection.
    pub after: Option<SessionId>,
    /// The maximum number of notes.
    pub limit: usize,
}

impl RemovalNote {
    /// Writes the note. It is on disk when this returns.
    pub fn write(&self, workspaces: &Path) -> io::Result<()> {
        let folder = workspaces.join(NOTES);
        create_private_folder(&folder)?;
        let mut lines = format!("{}\n", self.database);
        for id in &self.sessions {
            lines.push_str(&id.to_string());
            lines.push('\n');
        }
        let path = folder.join(self.root.to_string());
        let mut file =
            File::options().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.write_all(lines.as_bytes())?;
        file.sync_all()?;
        File::open(&folder)?.sync_all()
    }

    /// Removes the folders of the sessions in `gone`. After an error it continues with the others,
    /// and then returns an error.
    pub fn remove_folders(&self, workspaces: &Path, gone: &[SessionId]) -> io::Result<()> {
        let removals = gone.iter().map(|id| remove_folder(&workspaces.join(id.to_string())));
        removals.fold(Ok(()), Result::and)
    }

    /// Removes the folders of the sessions in `gone`, and then the note. After an error the note
    /// remains.
    pub fn remove_all(&self, workspaces: &Path, gone: &[SessionId]) -> io::Result<()> {
        self.remove_folders(workspaces, gone)?;
        self.delete(workspaces)
    }

    /// Removes the note.
    pub fn delete(&self, workspaces: &Path) -> io::Result<()> {
        match fs::remove_file(workspaces.join(NOTES).join(self.root.to_string())) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Lists the notes of a database that are older than `age`, at most `limit` of them. The order is
/// that of the session IDs, starting after `after` and wrapping around, so that notes that remain
/// do not hide others. Files that are not notes are ignored.
pub fn list_removal_notes(
    workspaces: &Path,
    database: &str,
    range: NoteRange,
) -> io::Result<Vec<RemovalNote>> {
    let NoteRange { age, after, limit } = range;
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
    let first = roots.partition_point(|root| Some(*root) <= after);
    roots.rotate_left(first);
    let mut found = Vec::new();
    for root in roots {
        if found.len() >= limit {
            break;
        }
        let path = folder.join(root.to_string());
        if is_older(&path, age)? {
            found.extend(read(root, &path).filter(|note| note.database == database));
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

fn read(root: SessionId, path: &Path) -> Option<RemovalNote> {
    let text = fs::read_to_string(path).ok()?;
    let (database, ids) = text.split_once('\n')?;
    let sessions = ids.lines().map(str::parse).collect::<Result<_, _>>().ok()?;
    Some(RemovalNote { root, database: database.to_owned(), sessions })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::slice::from_ref;
    use std::time::SystemTime;

    const HERE: &str = "1/2";
    const HOUR: Duration = Duration::from_hours(1);
    const MINUTE: Duration = Duration::from_mins(1);
    const ALL: NoteRange = NoteRange { age: Duration::ZERO, after: None, limit: 10 };
    const OLD: NoteRange = NoteRange { age: HOUR, ..ALL };

    fn age(path: &Path, age: Duration) {
        let written = SystemTime::now() - age;
        File::options().append(true).open(path).unwrap().set_modified(written).unwrap();
    }

    fn note() -> RemovalNote {
        let sessions = vec![SessionId::new(), SessionId::new()];
        RemovalNote { root: sessions[0], database: HERE.to_owned(), sessions }
    }

    #[test]
    fn only_old_notes_are_listed_and_other_files_are_ignored() {
        let home = tempfile::TempDir::new().unwrap();
        let workspaces = home.path().join("workspaces");
        assert_eq!(list_removal_notes(&workspaces, HERE, OLD).unwrap(), []);
        let (old, young, truncated) = (note(), note(), note());
        let path = |note: &RemovalNote| workspaces.join(NOTES).join(note.root.to_string());
        for note in [&old, &young, &truncated] {
            note.write(&workspaces).unwrap();
        }
        fs::write(path(&truncated), "1/2\nses_01").unwrap();
        age(&path(&old), 61 * MINUTE);
        age(&path(&truncated), 61 * MINUTE);
        age(&path(&young), 59 * MINUTE);
        assert_eq!(list_removal_notes(&workspaces, HERE, OLD).unwrap(), from_ref(&old));
        assert_eq!(
            list_removal_notes(&workspaces, HERE, NoteRange { limit: 1, ..ALL }).unwrap().len(),
            1
        );

        // Writing the note again resets its age.
        old.write(&workspaces).unwrap();
        assert_eq!(list_removal_notes(&workspaces, HERE, OLD).unwrap(), []);
        old.delete(&workspaces).unwrap();
        old.delete(&workspaces).unwrap();
        assert!(!path(&old).exists() && path(&young).exists());
    }

    #[test]
    fn a_note_is_removed_after_its_folders() {
        let home = tempfile::TempDir::new().unwrap();
        let (workspaces, note) = (home.path().join("workspaces"), note());
        note.write(&workspaces).unwrap();
        let folder = |index: usize| workspaces.join(note.sessions[index].to_string());
        fs::create_dir_all(folder(1).join("a")).unwrap();
        // A file in place of the workspaces folder, so that the removal fails.
        let blocked = home.path().join("blocked");
        fs::write(&blocked, "").unwrap();
        assert!(note.remove_all(&blocked, &note.sessions).is_err());
        let noted = || list_removal_notes(&workspaces, HERE, ALL).unwrap();
        assert_eq!((noted(), folder(1).exists()), (vec![note.clone()], true));
        note.remove_all(&workspaces, &note.sessions).unwrap();
        assert_eq!((noted(), folder(1).exists()), (vec![], false));
    }
    #[test]
    fn notes_are_listed_in_rotation() {
        let home = tempfile::TempDir::new().unwrap();
        let mut all: Vec<_> = (0..5).map(|_| note()).collect();
        all.sort_by_key(|note| note.root);
        for note in &all {
            note.write(home.path()).unwrap();
        }
        fs::write(home.path().join(NOTES).join("no session"), "").unwrap();
        let list = |after| {
            let found = list_removal_notes(home.path(), HERE, NoteRange { after, limit: 2, ..ALL })
                .unwrap();
            found.into_iter().map(|note| note.root).collect::<Vec<_>>()
        };
        let roots: Vec<SessionId> = all.iter().map(|note| note.root).collect();
        assert_eq!(list(None), roots[..2]);
        assert_eq!(list(Some(roots[1])), roots[2..4]);
        assert_eq!(list(Some(roots[3])), [roots[4], roots[0]]);
        // The note after the cursor has been removed.
        all[2].delete(home.path()).unwrap();
        assert_eq!(list(Some(roots[2])), roots[3..]);
    }
}
