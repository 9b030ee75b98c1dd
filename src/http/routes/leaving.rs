//! Folders of sessions that are about to be deleted or made. They go also if this process dies
//! before it is known what became of the sessions: a worker then finds the note.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use crate::http::state::Api;
use crate::tools::workspace::Leaving;

/// Folders of which it is noted that they may have to go. Dropped, the note stays.
pub(super) struct Leavers {
    leaving: Leaving,
    workspaces: Arc<Path>,
    posts: TaskTracker,
}

impl Leavers {
    /// Notes it. Where that fails it is no reason to keep the sessions: the disk may be full of
    /// their files.
    pub(super) async fn note(api: &Api, leaving: Leaving) -> Self {
        let (workspaces, posts) = (Arc::clone(&api.workspaces), api.posts.clone());
        let leavers = Self { leaving, workspaces, posts };
        let _ = leavers.aside(Leaving::note).await;
        leavers
    }

    /// Removes the folders, and then the note. It goes on if nobody waits for it.
    pub(super) fn remove(&self) -> JoinHandle<()> {
        self.aside(|leaving, workspaces| leaving.end(workspaces, &leaving.sessions))
    }

    /// Removes the folders, and lets the note stay: somebody may still be writing there.
    pub(super) fn remove_twice(&self) -> JoinHandle<()> {
        self.aside(|leaving, workspaces| leaving.remove(workspaces, &leaving.sessions))
    }

    /// Takes the note away: the folders stay.
    pub(super) fn forget(&self) {
        self.aside(Leaving::forget);
    }

    /// Works on the disk.
    fn aside(
        &self,
        work: impl FnOnce(&Leaving, &Path) -> io::Result<()> + Send + 'static,
    ) -> JoinHandle<()> {
        let (leaving, workspaces) = (self.leaving.clone(), Arc::clone(&self.workspaces));
        self.posts.spawn_blocking(move || {
            if let Err(error) = work(&leaving, &workspaces) {
                let session = leaving.root;
                tracing::warn!(%session, %error, "what becomes of a session's files is open");
            }
        })
    }
}
