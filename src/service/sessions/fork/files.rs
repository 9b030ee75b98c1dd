//! The workspace of a fork: a copy of the source's.

use super::super::workspace_removal::WorkspaceRemoval;
use crate::domain::ids::SessionId;
use crate::service::error::Error;
use crate::service::state::Service;
use crate::tools::workspace::{CopyError, RemovalNote, copy_folder};

/// The workspace of a fork that is not stored yet. It is removed when this is dropped.
pub(super) struct ForkFiles {
    removal: Option<WorkspaceRemoval>,
    /// The bytes of the copied files.
    pub(super) bytes: u64,
}

/// A request to copy a workspace.
pub(super) struct CopyFiles {
    /// The session with the workspace.
    pub(super) source: SessionId,
    pub(super) fork: SessionId,
    /// The id of the database that stores the fork.
    pub(super) database: String,
}

impl ForkFiles {
    /// No files to copy.
    pub(super) const NONE: Self = Self { removal: None, bytes: 0 };

    /// Copies the workspace of a session.
    pub(super) async fn copy(service: &Service, copy: CopyFiles) -> Result<Self, Error> {
        let CopyFiles { source, fork, database } = copy;
        let permit = service.copies.acquire().await.ok_or(Error::TooManyCopies)?;
        let note = RemovalNote { root: fork, database, sessions: vec![fork] };
        let removal = Some(WorkspaceRemoval::prepare(service, note).await);
        let files = Self { removal, bytes: 0 };
        let [from, to] = [source, fork].map(|id| service.workspaces.join(id.to_string()));
        // If the caller is dropped, so is the result of this task, which removes the folder.
        let copy = service.tasks.spawn_blocking(move || {
            let copied = copy_folder(&from, &to);
            drop(permit);
            (copied, files)
        });
        let (copied, mut files) =
            copy.await.map_err(|error| Error::Internal(format!("a copy panicked: {error}")))?;
        match copied {
            Ok(bytes) => {
                files.bytes = bytes;
                Ok(files)
            }
            Err(error @ CopyError::TooLarge) => Err(Error::WorkspaceTooLarge(error)),
            Err(CopyError::Io(error)) => {
                Err(Error::Internal(format!("the files of {source} cannot be copied: {error}")))
            }
        }
    }

    /// Keeps the files, because the fork is about to be stored. The caller cancels the returned
    /// removal once the fork is stored.
    pub(super) fn keep(mut self) -> Option<WorkspaceRemoval> {
        self.removal.take()
    }
}

impl Drop for ForkFiles {
    fn drop(&mut self) {
        if let Some(removal) = self.removal.take() {
            removal.remove();
        }
    }
}
