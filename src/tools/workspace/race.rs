//! Links that are swapped in while we look. What looks first and opens then is led out of the
//! folder now and again; what opens beneath a handle never is.

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
/// How long the naive way may take to be led out once.
const PATIENCE: Duration = Duration::from_mins(1);

/// A folder `door`, and beside it a link that leads out, which change places all the time.
struct Doors {
    outer: TempDir,
    workspace: Workspace,
}

fn doors() -> Doors {
    let outer = TempDir::new().unwrap();
    let root = outer.path().join("work");
    for folder in [root.join("door"), outer.path().join("outside")] {
        fs::create_dir_all(folder).unwrap();
    }
    fs::write(root.join("door/file"), "hello").unwrap();
    fs::write(outer.path().join("outside/file"), CANARY).unwrap();
    symlink("../outside", root.join("link")).unwrap();
    Doors { workspace: Workspace::new(root), outer }
}

impl Doors {
    /// Does this while the doors swing.
    fn while_swinging<T>(&self, work: impl FnOnce() -> T) -> T {
        let (door, link) = (self.workspace.root().join("door"), self.workspace.root().join("link"));
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    renameat_with(CWD, &door, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                }
            });
            let result = work();
            is_over.store(true, Ordering::Relaxed);
            result
        })
    }
}

/// Looks where a path leads, and opens it then.
fn naive(root: &Path) -> Option<Vec<u8>> {
    let path = root.join("door/file").canonicalize().ok()?;
    if path.starts_with(root) { fs::read(root.join("door/file")).ok() } else { None }
}

#[test]
fn no_read_is_led_out() {
    let doors = doors();
    let (mut inside, mut escaped) = (0, 0);
    doors.while_swinging(|| {
        for _ in 0..READS {
            match doors.workspace.read("door/file") {
                Ok(bytes) if bytes == CANARY => escaped += 1,
                Ok(_) => inside += 1,
                Err(_) => {}
            }
        }
    });
    assert_eq!(escaped, 0);
    assert!(inside > 0, "not one read found the file");
}

#[test]
fn the_naive_way_is_led_out_so_the_race_is_one() {
    let doors = doors();
    let root = doors.workspace.root().canonicalize().unwrap();
    let since = Instant::now();
    let is_out = doors.while_swinging(|| {
        while since.elapsed() < PATIENCE {
            if naive(&root).is_some_and(|bytes| bytes == CANARY) {
                return true;
            }
        }
        false
    });
    assert!(is_out);
}

#[test]
fn no_write_is_led_out() {
    let doors = doors();
    let draft =
        Draft::new(Fence { run_id: RunId::new(), attempt: 1, worker: WorkerId::new() }, "toolu_1");
    let written = doors.while_swinging(|| {
        let write = || doors.workspace.write("door/new", b"new", &draft, || true);
        (0..WRITES).filter(|_| write().is_ok()).count()
    });
    assert!(written > 0, "not one write was made");
    let outside: Vec<_> = fs::read_dir(doors.outer.path().join("outside")).unwrap().collect();
    assert_eq!(outside.len(), 1);
}
