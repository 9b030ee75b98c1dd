//! A symbolic link that replaces a folder during file access. Code that resolves a path and then
//! opens it leaves the workspace from time to time; code that opens below a folder handle never
//! does.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use tempfile::TempDir;

use super::{Draft, Workspace};
use crate::domain::claim::Fence;
use crate::domain::ids::{RunId, WorkerId};

const READS: usize = 200_000;
const WRITES: usize = 2_000;
const CANARY: &[u8] = b"canary";
/// The time limit of a test. It is no measurement: only a test in which an outcome never happens
/// exceeds it.
const PATIENCE: Duration = Duration::from_mins(10);

/// A folder `door` and a link that leads out of the workspace, which are exchanged all the time.
struct SwappedFolders {
    outer: TempDir,
    workspace: Workspace,
}

fn swapped_folders() -> SwappedFolders {
    let outer = TempDir::new().unwrap();
    let root = outer.path().join("work");
    for folder in [root.join("door"), outer.path().join("outside")] {
        fs::create_dir_all(folder).unwrap();
    }
    fs::write(root.join("door/file"), "hello").unwrap();
    fs::write(outer.path().join("outside/file"), CANARY).unwrap();
    symlink("../outside", root.join("link")).unwrap();
    SwappedFolders { workspace: Workspace::new(root), outer }
}

/// Ends the thread that exchanges folder and link, also when the test fails.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl SwappedFolders {
    /// Runs `work` while another thread exchanges folder and link.
    fn while_swapping<T>(&self, work: impl FnOnce() -> T) -> T {
        let (door, link) = (self.workspace.root().join("door"), self.workspace.root().join("link"));
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    renameat_with(CWD, &door, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                }
            });
            let _end = EndOnDrop(&is_over);
            work()
        })
    }
}

/// Calls `access` until it has run `times` times, and has both succeeded and failed. The thread that
/// exchanges folder and link may not run for a while, so a number of calls alone proves nothing.
fn repeat(times: usize, mut access: impl FnMut() -> bool) {
    let since = Instant::now();
    let mut count = [0, 0];
    while count[0] + count[1] < times || count.contains(&0) {
        assert!(since.elapsed() < PATIENCE, "{} calls failed, {} succeeded", count[0], count[1]);
        count[usize::from(access())] += 1;
    }
}

/// Resolves a path, and then opens it.
fn read_after_check(root: &Path) -> Option<Vec<u8>> {
    let path = root.join("door/file").canonicalize().ok()?;
    if path.starts_with(root) { fs::read(root.join("door/file")).ok() } else { None }
}

#[test]
fn no_read_leaves_the_workspace() {
    let swapped_folders = swapped_folders();
    swapped_folders.while_swapping(|| {
        repeat(READS, || {
            let read = swapped_folders.workspace.read("door/file");
            assert!(
                read.as_ref().ok().is_none_or(|bytes| bytes != CANARY),
                "a read left the folder"
            );
            read.is_ok()
        });
    });
}

#[test]
fn resolving_a_path_before_opening_it_leaves_the_workspace() {
    let swapped_folders = swapped_folders();
    let root = swapped_folders.workspace.root().canonicalize().unwrap();
    let since = Instant::now();
    let is_out = swapped_folders.while_swapping(|| {
        while since.elapsed() < PATIENCE {
            if read_after_check(&root).is_some_and(|bytes| bytes == CANARY) {
                return true;
            }
        }
        false
    });
    assert!(is_out);
}

#[test]
fn no_write_leaves_the_workspace() {
    let swapped_folders = swapped_folders();
    let draft =
        Draft::new(Fence { run_id: RunId::new(), attempt: 1, worker: WorkerId::new() }, "toolu_1");
    swapped_folders.while_swapping(|| {
        repeat(WRITES, || {
            swapped_folders.workspace.write("door/new", b"new", &draft, || true).is_ok()
        });
    });
    let outside: Vec<_> =
        fs::read_dir(swapped_folders.outer.path().join("outside")).unwrap().collect();
    assert_eq!(outside.len(), 1);
}
