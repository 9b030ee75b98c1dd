//! The server process: start under a watchdog, wait for readiness, stop.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::account::Account;
use super::binaries::Binaries;
use super::cluster::Layout;
use super::error::{PrivatePostgresError, io_error};
use super::watchdog::{self, SHELL};
use super::{Durability, predecessor};

/// Timeout of a start. It includes the recovery after a crash.
const START_TIMEOUT: Duration = Duration::from_mins(2);

/// Timeout of a fast shutdown, which ends with a checkpoint.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

/// Size in bytes at which a start renames the log; one older log is kept.
const LOG_MAX: u64 = 8 << 20;

const POLL: Duration = Duration::from_millis(3);

/// The settings of every private server. They open no TCP port.
const COMMON: [&str; 5] = [
    "listen_addresses=",
    "port=5432",
    "unix_socket_permissions=0700",
    "logging_collector=off",
    "log_line_prefix=%m [%p] ",
];

const DURABLE: [&str; 4] =
    ["fsync=on", "full_page_writes=on", "synchronous_commit=on", "max_connections=100"];

/// The settings of a server with throwaway data.
const THROWAWAY: [&str; 9] = [
    "fsync=off",
    "full_page_writes=off",
    "synchronous_commit=off",
    // Enough for a dozen services of two processes each, with all their connections open.
    "max_connections=700",
    "autovacuum=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "max_wal_size=512MB",
    "jit=off",
];

/// A server process, and the pipe that stops it when this process ends.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    log: PathBuf,
    /// The write end of the watchdog's pipe. Its end of file is the signal; a line dismisses the
    /// watchdog.
    pipe: Option<ChildStdin>,
}

impl Server {
    /// Starts the server and waits until it accepts connections. After the end of a predecessor,
    /// Postgres can refuse to start for a moment; `start` then tries again.
    pub(super) fn start(
        layout: &Layout,
        binaries: &Binaries,
        account: Account,
        durability: Durability,
    ) -> Result<Self, PrivatePostgresError> {
        let mut pause = Duration::from_millis(100);
        loop {
            let seen = predecessor::clear(layout)?;
            let mut server = Self::spawn(layout, binaries, account, durability)?;
            match server.wait_until_ready(&layout.cluster) {
                Err(PrivatePostgresError::Exited { .. })
                    if seen && pause < Duration::from_secs(3) =>
                {
                    server.dismiss_watchdog();
                    std::thread::sleep(pause);
                    pause *= 2;
                }
                Err(error) => return Err(error),
                Ok(()) => return Ok(server),
            }
        }
    }

    fn spawn(
        layout: &Layout,
        binaries: &Binaries,
        account: Account,
        durability: Durability,
    ) -> Result<Self, PrivatePostgresError> {
        let log = open_log(&layout.log)?;
        let second = log.try_clone().map_err(io_error("open", &layout.log))?;
        // The folders that the watchdog removes after the end of the server.
        let throwaway = durability == Durability::Throwaway;
        let dirs_to_remove = [
            throwaway.then_some(layout.data_dir.as_path()),
            layout.has_short_socket_dir().then_some(layout.socket_dir.as_path()),
        ];
        let postgres = binaries.dir.join("postgres");
        let mut command = watchdog::command(account, &postgres, &layout.cluster, dirs_to_remove);
        command.arg("-D").arg(&layout.cluster).arg("-k").arg(&layout.socket_dir);
        let specific = if throwaway { THROWAWAY.as_slice() } else { DURABLE.as_slice() };
        for setting in COMMON.iter().chain(specific) {
            command.args(["-c", setting]);
        }
        command.stdout(log).stderr(second);
        let mut child = command.spawn().map_err(io_error("run", Path::new(SHELL)))?;
        let pipe = child.stdin.take();
        Ok(Self { child, log: layout.log.clone(), pipe })
    }

    /// Waits until line 8 of `postmaster.pid` reports that the server accepts connections.
    fn wait_until_ready(&mut self, cluster: &Path) -> Result<(), PrivatePostgresError> {
        let pid_file = cluster.join("postmaster.pid");
        let own = self.child.id().to_string();
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            let text = fs::read_to_string(&pid_file).unwrap_or_default();
            let mut lines = text.lines().map(str::trim);
            if lines.next() == Some(own.as_str()) && lines.nth(6) == Some("ready") {
                return Ok(());
            }
            if let Some(status) = self.exit_status()? {
                let last_line = last_line(&self.log);
                return Err(PrivatePostgresError::Exited {
                    status,
                    last_line,
                    log: self.log.clone(),
                });
            }
            if Instant::now() > deadline {
                return Err(self.timed_out("become ready", START_TIMEOUT));
            }
            std::thread::sleep(POLL);
        }
    }

    /// True if the server process has ended.
    pub(super) fn has_ended(&mut self) -> bool {
        matches!(self.exit_status(), Ok(Some(_)))
    }

    /// Ends the watchdog of a server that has ended and will be started again. It would remove the
    /// folder of the socket, which the next server uses as well.
    pub(super) fn dismiss_watchdog(&mut self) {
        if let Some(mut pipe) = self.pipe.take() {
            let _ = pipe.write_all(b"\n"); // fails only if the watchdog was killed
        }
    }

    /// Stops the server: rolls open transactions back and writes a checkpoint. If that takes too
    /// long, it sends SIGQUIT, and the next start recovers.
    pub(super) fn stop(&mut self) -> Result<(), PrivatePostgresError> {
        self.signal(Signal::INT);
        if self.ended_within(STOP_TIMEOUT)? {
            return Ok(());
        }
        self.signal(Signal::QUIT);
        if self.ended_within(STOP_TIMEOUT)? {
            return Ok(());
        }
        Err(self.timed_out("stop", STOP_TIMEOUT * 2))
    }

    /// Signals the child. It has not been reaped, so its process id is not reused.
    fn signal(&mut self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let (Ok(None), Some(pid)) = (self.child.try_wait(), pid) {
            let _ = kill_process(pid, signal); // fails only for one that is gone
        }
    }

    fn ended_within(&mut self, time: Duration) -> Result<bool, PrivatePostgresError> {
        let deadline = Instant::now() + time;
        while self.exit_status()?.is_none() {
            if Instant::now() > deadline {
                return Ok(false);
            }
            std::thread::sleep(POLL);
        }
        Ok(true)
    }

    fn exit_status(&mut self) -> Result<Option<ExitStatus>, PrivatePostgresError> {
        self.child.try_wait().map_err(io_error("wait for", Path::new("postgres")))
    }

    fn timed_out(&self, action: &'static str, time: Duration) -> PrivatePostgresError {
        PrivatePostgresError::TimedOut { action, seconds: time.as_secs(), log: self.log.clone() }
    }
}

fn open_log(path: &Path) -> Result<File, PrivatePostgresError> {
    if fs::metadata(path).is_ok_and(|meta| meta.len() > LOG_MAX) {
        fs::rename(path, path.with_extension("log.old")).map_err(io_error("rename", path))?;
    }
    File::options().create(true).append(true).mode(0o600).open(path).map_err(io_error("open", path))
}

/// Returns the last line of the log with an error, else the last line.
fn last_line(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut lines = text.lines().rev().filter(|line| !line.trim().is_empty()).take(20);
    let last = lines.next().unwrap_or("its log is empty");
    let fatal = std::iter::once(last).chain(lines).find(|line| line.contains("FATAL"));
    fatal.unwrap_or(last).to_owned()
}
