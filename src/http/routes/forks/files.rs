//! The files of a fork.

use crate::domain::ids::SessionId;
use crate::http::error::ApiError;
use crate::http::routes::leaving::Leavers;
use crate::http::state::Api;
use crate::tools::workspace::{CopyError, Leaving, copy_folder};

/// A folder for a fork that is not there yet. If it never is, the folder is removed.
pub(super) struct Files(Option<Leavers>);

impl Files {
    /// A fork without files of its own.
    pub(super) const NONE: Self = Self(None);

    /// Copies the folder of a session for a fork of it, which this database will have.
    pub(super) async fn copy(
        api: &Api,
        source: SessionId,
        fork: SessionId,
        database: String,
    ) -> Result<Self, ApiError> {
        let turn = api.copies.acquire().await.ok_or(ApiError::TooManyCopies)?;
        let leaving = Leaving { root: fork, database, sessions: vec![fork] };
        let files = Self(Some(Leavers::note(api, leaving).await));
        let [from, to] = [source, fork].map(|id| api.workspaces.join(id.to_string()));
        // Whoever waits for it may leave: then what is returned here is dropped, with the folder.
        let copy = api.posts.spawn_blocking(move || {
            let copied = copy_folder(&from, &to);
            drop(turn);
            (copied, files)
        });
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

    /// The fork is as good as there. What is returned is to be told once it is.
    pub(super) fn keep(mut self) -> Option<Leavers> {
        self.0.take()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        if let Some(leavers) = self.0.take() {
            leavers.remove();
        }
    }
}
