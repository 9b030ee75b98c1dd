//! Cleanup after a killed process: a server that still runs, or its lock files.
//!
//! Postgres refuses to start while the process exists that `postmaster.pid`, or the lock file next
//! to its socket, names. That process can be a live server of this cluster, a zombie, or another
//! program with the same number (after a container was replaced). The working directory
//! distinguishes the three: every process of a Postgres server has the cluster as its working
//! directory. This process holds the lock of the data directory, so no live owner is affected.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::cluster::{Layout, SOCKET_LOCK};
use super::error::{PrivatePostgresError, io_error};

/// Timeout of a fast shutdown, which ends with a checkpoint; on a slow disk that takes seconds.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// The processes of a server.
#[derive(Debug, Default)]
struct Processes {
    /// The processes whose working directory is the cluster.
    inside: Vec<Pid>,
    /// The candidates whose working directory is not readable: in a container even root needs a
    /// capability for that.
    unseen: Vec<Pid>,
}

impl Processes {
    /// True if a candidate is the postmaster of this cluster.
    fn names(&self, pid: Pid, cluster: &Path) -> bool {
        let process = Path::new("/proc").join(pid.as_raw_nonzero().to_string());
        self.unseen.contains(&pid) && names(&arguments(&process), cluster)
    }
}

/// Stops a remaining server of the cluster and waits for its end. Returns true if there was any
/// trace of one. Without `/proc` Postgres itself decides.
pub(super) fn clear(layout: &Layout) -> Result<bool, PrivatePostgresError> {
    let cluster = layout.cluster.as_path();
    let pid_file = cluster.join("postmaster.pid");
    let deadline = Instant::now() + STOP_TIMEOUT;
    while let Some(postmaster) = read_pid(&pid_file) {
        let Some(found) = processes_of(cluster) else {
            return Ok(true);
        };
        let live = found.inside.contains(&postmaster) || found.names(postmaster, cluster);
        if live {
            // The process may have ended already; a second signal does no harm.
            let _ = kill_process(postmaster, Signal::INT);
        } else if found.inside.is_empty() {
            if found.unseen.is_empty() {
                remove(&pid_file)?;
                remove(&layout.socket_dir.join(SOCKET_LOCK))?;
            }
            return Ok(true);
        }
        if Instant::now() > deadline {
            let (action, seconds) = ("stop for its successor", STOP_TIMEOUT.as_secs());
            return Err(PrivatePostgresError::TimedOut {
                action,
                seconds,
                log: layout.log.clone(),
            });
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(false)
}

/// Reads the process id in the first line of `postmaster.pid`.
pub(super) fn read_pid(pid_file: &Path) -> Option<Pid> {
    let text = fs::read_to_string(pid_file).ok()?;
    Pid::from_raw(text.lines().next()?.trim().parse().ok()?)
}

fn remove(pid_file: &Path) -> Result<(), PrivatePostgresError> {
    match fs::remove_file(pid_file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io_error("remove", pid_file)(error))
        }
        _ => Ok(()),
    }
}

fn processes_of(cluster: &Path) -> Option<Processes> {
    fs::read_link("/proc/self/cwd").ok()?;
    let mut found = Processes::default();
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|n| n.parse().ok()).and_then(Pid::from_raw) else {
            continue;
        };
        match fs::read_link(entry.path().join("cwd")) {
            Ok(cwd) if cwd == cluster => found.inside.push(pid),
            Err(error)
                if error.kind() == io::ErrorKind::PermissionDenied
                    && may_be_of(cluster, &entry.path()) =>
            {
                found.unseen.push(pid);
            }
            _ => {} // elsewhere, gone, or a zombie
        }
    }
    Some(found)
}

/// Tests a process by its public data. The command line of the postmaster names the cluster. The
/// other processes are named `postgres: ...` and tested by their parent; the parent of an orphan is
/// unknown. A zombie has no command line.
fn may_be_of(cluster: &Path, process: &Path) -> bool {
    if !is_postgres(process) {
        return false; // the watchdog names the cluster as well
    }
    let arguments = arguments(process);
    if !arguments.starts_with(b"postgres: ") {
        return names(&arguments, cluster);
    }
    let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
    let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1));
    let Some(parent) = parent.map(|pid| Path::new("/proc").join(pid)) else {
        return true;
    };
    !is_postgres(&parent) || names(&self::arguments(&parent), cluster)
}

fn is_postgres(process: &Path) -> bool {
    fs::read_to_string(process.join("comm")).is_ok_and(|name| name.trim_end() == "postgres")
}

fn arguments(process: &Path) -> Vec<u8> {
    fs::read(process.join("cmdline")).unwrap_or_default()
}

/// True if the arguments contain this cluster.
fn names(arguments: &[u8], cluster: &Path) -> bool {
    let wanted = cluster.as_os_str().as_encoded_bytes();
    arguments.split(|byte| *byte == 0).any(|argument| argument == wanted)
}
