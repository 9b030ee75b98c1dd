//! The files of a fork.

use std::path::PathBuf;

use tokio_util::task::TaskTracker;

use crate::domain::ids::SessionId;
use crate::http::Api;
use crate::http::error::ApiError;
use crate::tools::workspace::{CopyError, copy_folder, remove_folder};

/// A folder for a fork that is not there yet. If it never is, the folder is removed.
pub(super) struct Files {
    folder: Option<PathBuf>,
    posts: TaskTracker,
}

impl Files {
    /// A fork without files of its own.
    pub(super) fn none(api: &Api) -> Self {
        Self { folder: None, posts: api.posts.clone() }
    }

    /// Copies the folder of a session for a fork of it.
    pub(super) async fn copy(
        api: &Api,
        source: SessionId,
        fork: SessionId,
    ) -> Result<Self, ApiError> {
        let [from, to] = [source, fork].map(|id| api.workspaces.join(id.to_string()));
        let files = Self { folder: Some(to.clone()), posts: api.posts.clone() };
        // Whoever waits for it may leave: then what is returned here is dropped, with the folder.
        let copy = api.posts.spawn_blocking(move || (copy_folder(&from, &to), files));
        let (copied, files) =
            copy.await.map_err(|error| ApiError::Internal(format!("a copy stopped: {error}")))?;
        match copied {
            Ok(()) => Ok(files),
            Err(error @ CopyError::TooLarge) => Err(ApiError::WorkspaceTooLarge(error)),
            Err(CopyError::Io(error)) => {
                Err(ApiError::Internal(format!("the files of {source} cannot be copied: {error}")))
            }
        }
    }

    /// The fork is as good as there.
    pub(super) fn keep(&mut self) {
        self.folder = None;
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let Some(folder) = self.folder.take() else { return };
        self.posts.spawn_blocking(move || {
            if let Err(error) = remove_folder(&folder) {
                let folder = folder.display();
                tracing::warn!(%folder, %error, "the files of no session cannot be removed");
            }
        });
    }
}
