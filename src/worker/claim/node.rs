//! Which worker this machine had before. A process that comes back need not wait for the leases
//! of the one that died here.
//!
//! Each worker holds a slot: a locked file in the state folder, with the worker's id in it. The
//! lock ends with its process in every way, so a file that can be locked names a worker that is
//! dead. Several workers of one machine hold several slots. The file's own place on the disk stands
//! beside the id: a copy of the folder is locked by nobody, and says nothing of who lives.

use std::fs::{File, OpenOptions, create_dir_all};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::domain::ids::WorkerId;

/// Workers of one machine that are told apart; more of them do without.
const MAX_SLOTS: usize = 64;

/// A worker's place on its machine.
#[derive(Debug)]
pub struct Node {
    id: WorkerId,
    /// Workers that died here.
    former: Vec<WorkerId>,
    /// Our slot, and those of others that died.
    slots: Vec<File>,
}

impl Node {
    /// A place without a memory.
    pub fn forgetful() -> Self {
        Self { id: WorkerId::new(), former: Vec::new(), slots: Vec::new() }
    }

    /// Takes a slot in this folder, and those of the dead. Without the folder a worker still
    /// works; its successor then waits for its leases.
    pub fn take(folder: &Path) -> Self {
        Self::try_take(folder).unwrap_or_else(|error| {
            let folder = folder.display();
            tracing::warn!(%error, %folder, "the state folder cannot be used");
            Self::forgetful()
        })
    }

    fn try_take(folder: &Path) -> io::Result<Self> {
        create_dir_all(folder)?;
        let mut node = Self::forgetful();
        for number in 0..MAX_SLOTS {
            let path = folder.join(format!("worker-{number}"));
            let is_new = !path.exists();
            if is_new && !node.slots.is_empty() {
                break;
            }
            let mut slot = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(path)?;
            if slot.try_lock().is_err() {
                continue;
            }
            let mut text = String::new();
            slot.read_to_string(&mut text)?;
            if let Some((id, place)) = text.trim().split_once(' ')
                && place == place_of(&slot)?
            {
                node.former.extend(id.parse::<WorkerId>());
            }
            node.slots.push(slot);
            if is_new {
                break;
            }
        }
        Ok(node)
    }

    /// The id of the worker that has this place now.
    pub fn id(&self) -> WorkerId {
        self.id
    }

    /// Workers whose leases can be ended, because their processes are dead.
    pub(in crate::worker) fn former(&self) -> &[WorkerId] {
        &self.former
    }

    /// Notes that the former leases have been ended, and that what is claimed from now on is
    /// ours. To be called before anything is claimed.
    pub(in crate::worker) fn settle(&self) -> io::Result<()> {
        for (number, mut slot) in self.slots.iter().enumerate() {
            slot.set_len(0)?;
            slot.rewind()?;
            if number == 0 {
                writeln!(slot, "{} {}", self.id, place_of(slot)?)?;
            }
            slot.sync_all()?;
            if number > 0 {
                slot.unlock()?;
            }
        }
        Ok(())
    }
}

/// Which file it is, whatever it is called.
fn place_of(slot: &File) -> io::Result<String> {
    let metadata = slot.metadata()?;
    Ok(format!("{}:{}", metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_the_folder_says_nothing_of_who_lives() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let living = Node::take(folders[0].path());
        living.settle().unwrap();
        let slots = folders.each_ref().map(|folder| folder.path().join("worker-0"));
        std::fs::copy(&slots[0], &slots[1]).unwrap();
        assert_eq!(Node::take(folders[1].path()).former(), []);
    }

    #[test]
    fn a_successor_knows_who_died_in_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let first = Node::take(folder.path());
        assert_eq!(first.former(), []);
        first.settle().unwrap();
        let id = first.id();
        drop(first);
        let second = Node::take(folder.path());
        assert_eq!(second.former(), [id]);
        assert_ne!(second.id(), id);
    }

    #[test]
    fn the_living_are_never_taken_for_dead() {
        let folder = tempfile::tempdir().unwrap();
        let first = Node::take(folder.path());
        first.settle().unwrap();
        let second = Node::take(folder.path());
        assert_eq!(second.former(), []);
        second.settle().unwrap();
        let dead = first.id();
        drop(first);
        let third = Node::take(folder.path());
        assert_eq!(third.former(), [dead]);
    }

    #[test]
    fn one_that_comes_back_alone_answers_for_all_that_died() {
        let folder = tempfile::tempdir().unwrap();
        let nodes = [Node::take(folder.path()), Node::take(folder.path())];
        let mut ids = nodes.each_ref().map(Node::id);
        for node in &nodes {
            node.settle().unwrap();
        }
        drop(nodes);
        let successor = Node::take(folder.path());
        let mut former = successor.former().to_vec();
        former.sort_unstable();
        ids.sort_unstable();
        assert_eq!(former, ids);
        successor.settle().unwrap();
        // The slot that is not needed is free again, and says nothing.
        assert_eq!(Node::take(folder.path()).former(), []);
    }

    #[test]
    fn a_folder_that_cannot_be_used_costs_only_the_memory() {
        assert_eq!(Node::take(Path::new("/proc/nowhere")).former(), []);
    }
}
