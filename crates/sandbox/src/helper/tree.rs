//! The descendants of this process. No other process is touched.

use std::collections::HashMap;
use std::fs;
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, wait};

/// The pause between two scans of the descendants.
const PAUSE: Duration = Duration::from_millis(2);

/// Kills and reaps all descendants until none is left. Callers must have reaped the first child.
pub(super) fn end_all() {
    while has_children() {
        kill_all();
        sleep(PAUSE);
    }
}

/// Kills all descendants. They are stopped first, so that none forks meanwhile.
pub(super) fn kill_all() {
    let mut stopped = 0;
    loop {
        let found = descendants();
        signal_all(&found, Signal::STOP);
        if found.len() <= stopped {
            return signal_all(&found, Signal::KILL);
        }
        stopped = found.len();
    }
}

/// Reaps ended children. Returns true if others are left.
fn has_children() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => return true,
            Err(_none) => return false,
        }
    }
}

pub(super) fn signal_all(pids: &[Pid], signal: Signal) {
    for pid in pids {
        // The process may have ended meanwhile. Its id is not reused before its parent, which is
        // this process or a descendant, has reaped it.
        let _ = kill_process(*pid, signal);
    }
}

/// Returns the children, their children, and so on.
pub(super) fn descendants() -> Vec<Pid> {
    let children = children_of_all();
    let mut found = Vec::new();
    let mut parents = vec![getpid().as_raw_nonzero().get()];
    while let Some(parent) = parents.pop() {
        for child in children.get(&parent).into_iter().flatten() {
            parents.push(*child);
            found.extend(Pid::from_raw(*child));
        }
    }
    found
}

/// Returns the children of every process, by process id.
fn children_of_all() -> HashMap<i32, Vec<i32>> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(pid) = pid else { continue };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        if let Some(parent) = parent_in(&stat) {
            children.entry(parent).or_default().push(pid);
        }
    }
    children
}

/// Parses the parent's process id; `None` if the process is dead. The process name can contain any
/// character and ends with the last parenthesis.
fn parent_in(stat: &str) -> Option<i32> {
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    // The state is that of the first thread, which can end before the others.
    let (state, parent, threads) = (fields.first()?, fields.get(1)?, fields.get(17)?);
    let is_dead = matches!(*state, "Z" | "X") && threads.parse::<u32>().is_ok_and(|n| n < 2);
    if is_dead { None } else { parent.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::parent_in;

    /// The fields between the parent's id and the number of threads.
    const BETWEEN: &str = "7 7 0 -1 4194304 0 0 0 0 0 0 0 0 20 0";

    fn parent(name: &str, state: &str, parent: i32, threads: u32) -> Option<i32> {
        parent_in(&format!("7 ({name}) {state} {parent} {BETWEEN} {threads} 0 4711 0 0"))
    }

    #[test]
    fn a_name_with_parentheses_does_not_hide_the_parent() {
        assert_eq!(parent("a) S 1 (b", "S", 42, 1), Some(42));
        assert_eq!(parent("bash", "R", 3, 1), Some(3));
    }

    #[test]
    fn a_dead_process_has_no_parent() {
        assert_eq!(parent("bash", "Z", 3, 1), None);
        assert_eq!(parent("bash", "X", 3, 0), None);
    }

    #[test]
    fn a_process_lives_as_long_as_one_of_its_threads() {
        assert_eq!(parent("python3", "Z", 3, 2), Some(3));
    }

    #[test]
    fn the_entry_of_this_process_is_parsed() {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
        assert_eq!(parent_in(&stat), parent);
    }
}
