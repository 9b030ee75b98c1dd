//! The armed faults of a process and their effects.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use clap::ValueEnum as _;
use rustix::process::{Signal, getpid, kill_process};

use super::options::{Action, Failpoint, FaultArgs};
use super::{Bug, Point};

/// The interval at which a paused process checks whether it may continue.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

static ARMED: OnceLock<Armed> = OnceLock::new();

#[derive(Debug)]
struct Armed {
    failpoints: Vec<(Failpoint, AtomicU32)>,
    folder: PathBuf,
    bugs: Vec<Bug>,
    clock_skew: i64,
    witness: Option<PathBuf>,
}

impl FaultArgs {
    /// Arms the process. A process is armed only once, from its command line.
    pub fn arm(&self) {
        let failpoints = self.failpoint.iter().map(|failpoint| (*failpoint, AtomicU32::new(0)));
        let armed = Armed {
            failpoints: failpoints.collect(),
            folder: self.faults_dir.clone().unwrap_or_default(),
            bugs: self.bug.clone(),
            clock_skew: self.clock_skew,
            witness: self.witness.clone(),
        };
        if ARMED.set(armed).is_err() {
            tracing::error!("faults can be armed only once");
        }
    }
}

/// Marks the arrival at a failpoint, and waits while it is paused.
pub(crate) async fn point(point: Point) {
    let Some(mark) = reached(point) else { return };
    while mark.exists() {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// [`point`] for code that may block its thread.
pub(crate) fn point_blocking(point: Point) {
    let Some(mark) = reached(point) else { return };
    while mark.exists() {
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Returns `true` if a defect is enabled.
pub(crate) fn has(bug: Bug) -> bool {
    ARMED.get().is_some_and(|armed| armed.bugs.contains(&bug))
}

/// Returns the seconds by which the clock of this process is ahead.
pub(crate) fn clock_skew() -> i64 {
    ARMED.get().map_or(0, |armed| armed.clock_skew)
}

/// Returns the file to which the tools of the crash test write, if configured.
pub(crate) fn trace_file() -> Option<PathBuf> {
    ARMED.get()?.witness.clone()
}

/// Executes the action of a failpoint; returns the mark to wait for, if the action is a pause.
fn reached(point: Point) -> Option<PathBuf> {
    let armed = ARMED.get()?;
    let (failpoint, hits) = armed.failpoints.iter().find(|(armed, _)| armed.point == point)?;
    if hits.fetch_add(1, Ordering::Relaxed) + 1 != failpoint.nth {
        return None;
    }
    let value = point.to_possible_value()?;
    let mark = |kind| armed.folder.join(format!("{}.{kind}", value.get_name()));
    // The mark remains, so that a restarted process is not killed again.
    if !is_new(&mark("hit")) {
        return None;
    }
    match failpoint.action {
        Action::Abort => {
            let _ = kill_process(getpid(), Signal::KILL);
            std::process::abort()
        }
        Action::Pause => Some(mark("pause")).filter(|mark| is_new(mark)),
    }
}

fn is_new(mark: &Path) -> bool {
    File::create_new(mark).is_ok()
}
