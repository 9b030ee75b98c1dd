//! Readiness of the folder of the workspaces.

use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, process};

use rustix::fs::{CWD, Mode, OFlags, openat};
use tokio::sync::Mutex;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, timeout};

use super::check::{Check, CheckStatus};

/// The lifetime of a cached success, and of a failure.
const SUCCESS_LIFETIME: Duration = Duration::from_secs(10);
const FAILURE_LIFETIME: Duration = Duration::from_secs(1);
/// The maximum time of a write: a network file system can hang.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The number of bytes that are written: more than a file system stores without a block.
const PROBE: [u8; 8192] = [0; 8192];

/// Checks that files can be written to a folder, at most once at a time.
#[derive(Debug, Clone)]
pub struct FolderProbe {
    folder: PathBuf,
    is_required: bool,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    cached: Option<(Instant, Check)>,
    /// A write that did not end in time.
    pending: Option<JoinHandle<io::Result<()>>>,
}

impl FolderProbe {
    /// A probe of this folder. Without it the process is not ready if `is_required`; otherwise it is
    /// ready with a warning.
    pub fn new(folder: PathBuf, is_required: bool) -> Self {
        Self { folder, is_required, state: Arc::default() }
    }

    /// The folder that is checked.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// True if the process is not ready without the folder.
    pub const fn is_required(&self) -> bool {
        self.is_required
    }

    /// Checks the folder, and describes why it cannot be written.
    pub async fn problem(&self) -> Option<String> {
        let Check { status, detail, .. } = self.check().await;
        (status != CheckStatus::Ok).then(|| detail.to_string())
    }

    /// Returns the cached result, or checks again. Concurrent callers share one check.
    pub(super) async fn check(&self) -> Check {
        let mut state = self.state.lock().await;
        if let Some((when, check)) = &state.cached {
            let is_ok = check.status == CheckStatus::Ok;
            let lifetime = if is_ok { SUCCESS_LIFETIME } else { FAILURE_LIFETIME };
            if when.elapsed() < lifetime {
                return check.clone();
            }
        }
        let folder = self.folder.clone();
        let mut write =
            state.pending.take().unwrap_or_else(|| spawn_blocking(move || probe(&folder)));
        let check = match timeout(TIMEOUT, &mut write).await {
            Ok(Ok(Ok(()))) => Check::new(CheckStatus::Ok, "writable"),
            Ok(Ok(Err(error))) => self.failed(format!("cannot be written: {error}")),
            Ok(Err(error)) => self.failed(format!("cannot be checked: {error}")),
            Err(_) => {
                state.pending = Some(write);
                self.failed(format!("cannot be written within {} s", TIMEOUT.as_secs()))
            }
        };
        state.cached = Some((Instant::now(), check.clone()));
        check
    }

    fn failed(&self, detail: String) -> Check {
        tracing::debug!(folder = %self.folder.display(), detail, "check of the workspaces failed");
        let status = if self.is_required { CheckStatus::Failed } else { CheckStatus::Warning };
        Check::new(status, detail)
    }
}

/// Writes a file without a name to the folder. A folder that does not exist yet is created by the first
/// session, so its nearest existing parent is checked.
fn probe(folder: &Path) -> io::Result<()> {
    let mut folder = folder;
    while !folder.try_exists()? {
        folder = folder.parent().ok_or(ErrorKind::NotFound)?;
    }
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let unnamed = openat(CWD, folder, flags, Mode::RUSR | Mode::WUSR);
    let mut file = match unnamed.map_err(io::Error::from) {
        Ok(file) => fs::File::from(file),
        // Not every file system has files without a name.
        Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::IsADirectory) => {
            named(folder)?
        }
        Err(error) => return Err(error),
    };
    file.write_all(&PROBE)
}

/// A file whose name is removed at once.
fn named(folder: &Path) -> io::Result<fs::File> {
    let path = folder.join(format!(".twostep-write-check-{}", process::id()));
    let file = fs::File::create(&path)?;
    fs::remove_file(path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[tokio::test]
    async fn a_folder_is_writable_before_its_first_session_and_nothing_remains() {
        let parent = tempfile::TempDir::new().unwrap();
        let probe = FolderProbe::new(parent.path().join("data/workspaces"), true);
        assert_eq!(probe.check().await, Check::new(CheckStatus::Ok, "writable"));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
        drop(named(parent.path()).unwrap());
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_folder_that_cannot_be_written_fails_only_if_it_is_required() {
        let parent = tempfile::TempDir::new().unwrap();
        let full = parent.path().join("full");
        // Root may write to every folder, but no file can be created in this one.
        symlink("/proc/self/fdinfo", &full).unwrap();
        for (is_required, expected) in [(true, CheckStatus::Failed), (false, CheckStatus::Warning)]
        {
            let found = FolderProbe::new(full.clone(), is_required).check().await;
            assert_eq!(found.status, expected);
            assert!(found.detail.starts_with("cannot be written: "), "{found:?}");
        }
    }
}
