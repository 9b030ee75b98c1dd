//! Removing the workspaces of sessions that are being deleted, or that were never created.
//!
//! A note on disk names the folders before the database decides. If this process stops in between,
//! the garbage collection of a worker finds the note and removes the folders.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use crate::service::state::Service;
use crate::tools::workspace::RemovalNote;

/// Folders with a note that they may have to be removed. The note stays when this is dropped.
pub(super) struct WorkspaceRemoval {
    note: RemovalNote,
    workspaces: Arc<Path>,
    tasks: TaskTracker,
}

impl WorkspaceRemoval {
    /// Writes the note. A failure is only logged: the disk may be full because of the files of the
    /// sessions, which must not prevent their deletion.
    pub(super) async fn prepare(service: &Service, note: RemovalNote) -> Self {
        let (workspaces, tasks) = (Arc::clone(&service.workspaces), service.tasks.clone());
        let removal = Self { note, workspaces, tasks };
        let _ = removal.spawn(RemovalNote::write).await;
        removal
    }

    /// Removes the folders and then the note. The work continues if the caller does not wait.
    pub(super) fn remove(&self) -> JoinHandle<()> {
        self.spawn(|note, workspaces| note.remove_all(workspaces, &note.sessions))
    }

    /// Removes the folders and keeps the note: a worker may still write to them, and the garbage
    /// collection removes them again later.
    pub(super) fn remove_and_keep_note(&self) -> JoinHandle<()> {
        self.spawn(|note, workspaces| note.remove_folders(workspaces, &note.sessions))
    }

    /// Deletes the note: the folders stay.
    pub(super) fn cancel(&self) {
        self.spawn(RemovalNote::delete);
    }

    /// Runs file operations on a thread for blocking work.
    fn spawn(
        &self,
        work: impl FnOnce(&RemovalNote, &Path) -> io::Result<()> + Send + 'static,
    ) -> JoinHandle<()> {
        let (note, workspaces) = (self.note.clone(), Arc::clone(&self.workspaces));
        self.tasks.spawn_blocking(move || {
            if let Err(error) = work(&note, &workspaces) {
                let session = note.root;
                tracing::warn!(%session, %error, "workspace removal failed");
            }
        })
    }
}
