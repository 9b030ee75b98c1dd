//! All processes beneath this one. A process that is no descendant is never touched.

use std::collections::HashMap;
use std::fs;
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, wait};

/// Between two looks at who is left.
const PAUSE: Duration = Duration::from_millis(2);

/// Ends all descendants and takes their statuses, until there is none. Only for the time after the
/// first child's status has been taken.
pub(super) fn end_all() {
    while has_children() {
        kill_all();
        sleep(PAUSE);
    }
}

/// Kills all descendants. They are stopped first, so that none makes another meanwhile.
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

/// Takes the statuses of those that have ended, and says whether others are left.
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
        // It may have ended meanwhile. Its number is not given to another process before its
        // parent has taken its status, which is one of ours or we.
        let _ = kill_process(*pid, signal);
    }
}

/// Children, their children, and so on.
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

/// The children of every process, by its number.
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

/// The parent's number. The process's name, which may hold anything, ends with the last
/// parenthesis; its state comes next.
fn parent_in(stat: &str) -> Option<i32> {
    let (state, rest) = stat.rsplit_once(") ")?.1.split_once(' ')?;
    let is_dead = matches!(state, "Z" | "X");
    if is_dead { None } else { rest.split(' ').next()?.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::parent_in;

    #[test]
    fn a_name_with_parentheses_hides_no_parent() {
        assert_eq!(parent_in("7 (a) S 1 (b) S 42 7 7 0"), Some(42));
        assert_eq!(parent_in("7 (bash) R 3 7 7 0"), Some(3));
    }

    #[test]
    fn a_dead_process_is_nobodys_child() {
        assert_eq!(parent_in("7 (bash) Z 3 7 7 0"), None);
    }
}
