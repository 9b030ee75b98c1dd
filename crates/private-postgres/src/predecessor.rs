//! What a killed process may leave behind: a server that still runs, or the traces of one.
//!
//! Postgres refuses to start while the process named in `postmaster.pid`, or in the lock file
//! beside its socket, answers. That process may be a live server of this cluster, a zombie, or (after a container was replaced) another
//! program with the same number. All three are told apart by the working directory: every process
//! of a Postgres server has the cluster as its own. We hold the data directory's lock, so no
//! living owner is disturbed.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::cluster::{Layout, SOCKET_LOCK};
use super::error::{EmbeddedError, io_error};

/// A fast shutdown ends with a checkpoint; on a slow disk that takes seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// The processes of a server.
#[derive(Debug, Default)]
struct Processes {
    /// Those that work in the cluster.
    inside: Vec<Pid>,
    /// Those that may do, but whose working directory we may not see: in a container even root
    /// needs a capability for that.
    unseen: Vec<Pid>,
}

impl Processes {
    /// Whether an unseen process is the first of this cluster's server.
    fn names(&self, pid: Pid, cluster: &Path) -> bool {
        let process = Path::new("/proc").join(pid.as_raw_nonzero().to_string());
        self.unseen.contains(&pid) && names(&arguments(&process), cluster)
    }
}

/// Ends a server left over in `cluster` and waits until it is gone. Returns whether there was a
/// trace of one. Without `/proc` the decision is left to Postgres.
pub(super) fn clear(layout: &Layout) -> Result<bool, EmbeddedError> {
    let cluster = layout.cluster.as_path();
    let pid_file = cluster.join("postmaster.pid");
    let deadline = Instant::now() + PATIENCE;
    while let Some(postmaster) = read_pid(&pid_file) {
        let Some(found) = processes_of(cluster) else {
            return Ok(true);
        };
        let live = found.inside.contains(&postmaster) || found.names(postmaster, cluster);
        if live {
            // gone in the meantime is as good; asking twice does no harm
            let _ = kill_process(postmaster, Signal::INT);
        } else if found.inside.is_empty() {
            if found.unseen.is_empty() {
                remove(&pid_file)?;
                remove(&layout.socket_dir.join(SOCKET_LOCK))?;
            }
            return Ok(true);
        }
        if Instant::now() > deadline {
            let (action, seconds) = ("end for its successor", PATIENCE.as_secs());
            return Err(EmbeddedError::TimedOut { action, seconds, log: layout.log.clone() });
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(false)
}

/// The first line of `postmaster.pid`.
pub(super) fn read_pid(pid_file: &Path) -> Option<Pid> {
    let text = fs::read_to_string(pid_file).ok()?;
    Pid::from_raw(text.lines().next()?.trim().parse().ok()?)
}

fn remove(pid_file: &Path) -> Result<(), EmbeddedError> {
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

/// Judges a process by what everybody may read. The first process of a server names the cluster,
/// the others call themselves `postgres: ...` and are judged by their parent; an orphan of those
/// may be anybody's. A zombie has no command line.
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

/// Whether this cluster is among the arguments.
fn names(arguments: &[u8], cluster: &Path) -> bool {
    let wanted = cluster.as_os_str().as_encoded_bytes();
    arguments.split(|byte| *byte == 0).any(|argument| argument == wanted)
}
