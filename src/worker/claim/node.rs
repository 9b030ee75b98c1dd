//! The identity of a worker on its machine. A process that starts again finds the worker that
//! stopped before it, and need not wait until that worker's leases expire.
//!
//! Each worker locks a file in the state folder and writes its id into it. The lock ends with the
//! process, however that stops, so a file that can be locked names a worker that has stopped. Several
//! workers of one machine have several files. The file also contains its own inode number: in a copy
//! of the folder the files are not locked although their workers may be running.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use crate::domain::ids::WorkerId;
use crate::tools::workspace::create_private_folder;

/// Maximum number of workers of one machine that have a file.
const MAX_FILES: usize = 64;

/// The identity of a worker on its machine.
#[derive(Debug)]
pub struct Node {
    id: WorkerId,
    /// Workers that stopped on this machine.
    predecessors: Vec<WorkerId>,
    /// The file of this worker, and the files of its predecessors.
    files: Vec<File>,
}

impl Node {
    /// An identity that no later worker recognizes.
    pub fn ephemeral() -> Self {
        Self { id: WorkerId::new(), predecessors: Vec::new(), files: Vec::new() }
    }

    /// Locks a file in this folder, and the files of predecessors. A worker whose folder cannot be
    /// used works as well, but its successor waits until its leases expire.
    pub fn open(folder: &Path) -> Self {
        Self::try_open(folder).unwrap_or_else(|error| {
            let folder = folder.display();
            tracing::warn!(%error, %folder, "state folder cannot be used");
            Self::ephemeral()
        })
    }

    fn try_open(folder: &Path) -> io::Result<Self> {
        create_private_folder(folder)?;
        let mut node = Self::ephemeral();
        for number in 0..MAX_FILES {
            let path = folder.join(format!("worker-{number}"));
            let is_new = !path.exists();
            if is_new && !node.files.is_empty() {
                break;
            }
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(path)?;
            if file.try_lock().is_err() {
                continue;
            }
            let mut text = String::new();
            file.read_to_string(&mut text)?;
            if let Some((id, inode)) = text.trim().split_once(' ')
                && inode == inode_of(&file)?
            {
                node.predecessors.extend(id.parse::<WorkerId>());
            }
            node.files.push(file);
            if is_new {
                break;
            }
        }
        Ok(node)
    }

    /// The id of the worker.
    pub fn id(&self) -> WorkerId {
        self.id
    }

    /// The workers whose leases can be ended, because their processes have stopped.
    pub(super) fn predecessors(&self) -> &[WorkerId] {
        &self.predecessors
    }

    /// Writes the id of this worker, and releases the files of its predecessors, whose leases have
    /// ended. Must be called before the first claim.
    pub(super) fn write_id(&self) -> io::Result<()> {
        for (number, mut file) in self.files.iter().enumerate() {
            file.set_len(0)?;
            file.rewind()?;
            if number == 0 {
                writeln!(file, "{} {}", self.id, inode_of(file)?)?;
            }
            file.sync_all()?;
            if number > 0 {
                file.unlock()?;
            }
        }
        Ok(())
    }
}

/// The device and inode number of a file, which its copy does not share.
fn inode_of(file: &File) -> io::Result<String> {
    let metadata = file.metadata()?;
    Ok(format!("{}:{}", metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_the_folder_names_no_predecessor() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let living = Node::open(folders[0].path());
        living.write_id().unwrap();
        let files = folders.each_ref().map(|folder| folder.path().join("worker-0"));
        std::fs::copy(&files[0], &files[1]).unwrap();
        assert_eq!(Node::open(folders[1].path()).predecessors(), []);
    }

    #[test]
    fn a_successor_finds_its_predecessor() {
        let folder = tempfile::tempdir().unwrap();
        let first = Node::open(folder.path());
        assert_eq!(first.predecessors(), []);
        first.write_id().unwrap();
        let id = first.id();
        drop(first);
        let second = Node::open(folder.path());
        assert_eq!(second.predecessors(), [id]);
        assert_ne!(second.id(), id);
    }

    #[test]
    fn a_running_worker_is_never_a_predecessor() {
        let folder = tempfile::tempdir().unwrap();
        let first = Node::open(folder.path());
        first.write_id().unwrap();
        let second = Node::open(folder.path());
        assert_eq!(second.predecessors(), []);
        second.write_id().unwrap();
        let dead = first.id();
        drop(first);
        let third = Node::open(folder.path());
        assert_eq!(third.predecessors(), [dead]);
    }

    #[test]
    fn one_successor_finds_all_predecessors() {
        let folder = tempfile::tempdir().unwrap();
        let nodes = [Node::open(folder.path()), Node::open(folder.path())];
        let mut ids = nodes.each_ref().map(Node::id);
        for node in &nodes {
            node.write_id().unwrap();
        }
        drop(nodes);
        let successor = Node::open(folder.path());
        let mut predecessors = successor.predecessors().to_vec();
        predecessors.sort_unstable();
        ids.sort_unstable();
        assert_eq!(predecessors, ids);
        successor.write_id().unwrap();
        // The file that is not needed is unlocked and empty.
        assert_eq!(Node::open(folder.path()).predecessors(), []);
    }

    #[test]
    fn a_folder_that_cannot_be_used_only_hides_the_predecessors() {
        assert_eq!(Node::open(Path::new("/proc/nowhere")).predecessors(), []);
    }
}
