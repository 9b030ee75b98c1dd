//! The folder in which new sessions work.

use std::path::Path;

use anyhow::bail;
use rustix::process::{getegid, geteuid};

use crate::config::Listen;
use crate::http::FolderProbe;

/// The readiness check of the folder in which new sessions work, if the process executes runs.
pub(super) fn workspaces_probe(own: &Path, listen: &Listen, works: bool) -> Option<FolderProbe> {
    let shared = match listen {
        Listen::Api(serve) => serve.service.defaults.workspace.as_ref(),
        Listen::Health(_) | Listen::Nowhere => None,
    };
    works.then(|| match shared {
        // A folder that the operator chose may be read-only on purpose.
        Some(folder) => FolderProbe::new(folder.into(), false),
        None => FolderProbe::new(own.to_owned(), true),
    })
}

/// Checks that the process can write to the folder. A mounted folder often belongs to another user.
pub(super) async fn check_workspaces(probe: Option<&FolderProbe>) -> anyhow::Result<()> {
    let Some(probe) = probe else { return Ok(()) };
    let Some(problem) = probe.problem().await else { return Ok(()) };
    let folder = probe.folder().display();
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    if probe.is_required() {
        bail!(
            "the workspace folder {folder} {problem}: give it to the user of this process \
             (chown {user}:{group}), or set --data-dir or --session-workspaces to another folder"
        );
    }
    tracing::warn!(
        %folder,
        problem,
        user,
        group,
        "shared workspace not writable, so tools can only read there"
    );
    Ok(())
}
