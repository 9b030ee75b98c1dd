//! The data directory: its folders, its lock, and the cluster that is made on first start.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use super::account::Account;
use super::binaries::Binaries;
use super::error::{EmbeddedError, io_error};
use super::{DATABASE, Durability, ROLE};

/// The locale of the cluster: byte order for sorting, Unicode for case, on every system alike.
pub(super) const LOCALE: &str = if cfg!(target_os = "macos") { "en_US.UTF-8" } else { "C.UTF-8" };

/// The longest path of a Unix socket, without its closing NUL (Linux; macOS has four bytes less).
const SOCKET_PATH_MAX: usize = 103;

/// The socket's name: Postgres builds it from the port, and 5432 is the port we name.
const SOCKET_NAME: &str = ".s.PGSQL.5432";

/// The lock file beside the socket: it names the process of the server.
pub(super) const SOCKET_LOCK: &str = ".s.PGSQL.5432.lock";

/// A watchdog looks ten times a second whether its server is gone.
const REMOVED_WITHIN: Duration = Duration::from_secs(2);

/// The folders of a private server.
#[derive(Debug)]
pub(super) struct Layout {
    /// The data directory itself.
    pub(super) data_dir: PathBuf,
    /// The cluster, with its `PG_VERSION`.
    pub(super) cluster: PathBuf,
    /// Where the socket is: `run` in the data directory, or a short folder elsewhere.
    pub(super) socket_dir: PathBuf,
    /// The server's log.
    pub(super) log: PathBuf,
    /// Held for the life of the server; the kernel lets go of it however the process ends.
    _lock: File,
}

impl Layout {
    /// Opens the data directory, makes it if need be, and takes its lock.
    pub(super) fn open(data_dir: &Path, durability: Durability) -> Result<Self, EmbeddedError> {
        create_data_dir(data_dir, durability)?;
        let data_dir = data_dir.canonicalize().map_err(io_error("resolve", data_dir))?;
        let lock = lock(&data_dir)?;
        Ok(Self {
            cluster: data_dir.join("pg"),
            socket_dir: data_dir.join("run"),
            log: data_dir.join("postgres.log"),
            data_dir,
            _lock: lock,
        })
    }

    /// The `PG_VERSION` of the cluster, none before the first start.
    pub(super) fn made_by(&self) -> Option<String> {
        let text = fs::read_to_string(self.cluster.join("PG_VERSION")).ok()?;
        Some(text.trim().to_owned())
    }

    /// Makes the folder of the socket and gives it to the server's user. A path too long for a
    /// socket is replaced by a short private one.
    pub(super) fn create_socket_dir(&mut self, account: Account) -> Result<(), EmbeddedError> {
        if self.socket_dir.join(SOCKET_NAME).as_os_str().len() > SOCKET_PATH_MAX {
            self.socket_dir = create_short_dir()?;
            tracing::info!(
                data.dir = %self.data_dir.display(),
                socket.dir = %self.socket_dir.display(),
                "the data directory's path is too long for a socket: using a short one"
            );
            return account.own(&self.socket_dir);
        }
        self.make_socket_dir(account)
    }

    /// Makes the socket's folder again, in its place, after the server has died. A short one goes
    /// with the server, a moment later.
    pub(super) fn renew_socket_dir(&self, account: Account) -> Result<(), EmbeddedError> {
        let deadline = Instant::now() + REMOVED_WITHIN;
        while self.has_short_socket_dir() && self.socket_dir.exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.make_socket_dir(account)
    }

    fn make_socket_dir(&self, account: Account) -> Result<(), EmbeddedError> {
        if let Err(error) = private_dir(&self.socket_dir)
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(io_error("create", &self.socket_dir)(error));
        }
        account.own(&self.socket_dir)
    }

    /// Whether the socket is outside the data directory, in a folder that ends with the server.
    pub(super) fn has_short_socket_dir(&self) -> bool {
        !self.socket_dir.starts_with(&self.data_dir)
    }

    /// Makes the cluster with our role and our database. It is built beside its place and renamed
    /// when complete: an interrupted first start never looks like a cluster.
    pub(super) fn create_cluster(
        &self,
        binaries: &Binaries,
        account: Account,
        durability: Durability,
    ) -> Result<(), EmbeddedError> {
        let building = self.data_dir.join("pg.new");
        match fs::remove_dir_all(&building) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(io_error("remove", &building)(error));
            }
            _ => {}
        }
        private_dir(&building).map_err(io_error("create", &building))?;
        account.own(&building)?;
        initdb(&building, binaries, account, durability)?;
        create_database(&building, binaries, account, durability)?;
        fs::rename(&building, &self.cluster).map_err(io_error("rename", &building))?;
        File::open(&self.data_dir)
            .and_then(|dir| dir.sync_all())
            .map_err(io_error("sync", &self.data_dir))
    }
}

/// Makes the data directory, closed to others; root leaves the way through to the server's user.
/// A directory that exists keeps its mode.
fn create_data_dir(dir: &Path, durability: Durability) -> Result<(), EmbeddedError> {
    if let Some(parent) = dir.parent() {
        fs::create_dir_all(parent).map_err(io_error("create", parent))?;
    }
    match private_dir(dir) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return match durability {
                Durability::Durable => Ok(()),
                Durability::Throwaway => Err(EmbeddedError::NotFresh(dir.to_owned())),
            };
        }
        Err(error) => return Err(io_error("create", dir)(error)),
    }
    let mode = if rustix::process::geteuid().is_root() { 0o711 } else { 0o700 };
    fs::set_permissions(dir, Permissions::from_mode(mode)).map_err(io_error("chmod", dir))
}

fn private_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(dir)
}

/// One live server a data directory.
fn lock(data_dir: &Path) -> Result<File, EmbeddedError> {
    let path = data_dir.join("lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(io_error("open", &path))?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(EmbeddedError::InUse(data_dir.to_owned())),
        Err(error) => Err(io_error("lock", &path)(error.into())),
    }
}

/// A new folder with a short path. The name need not be secret: the folder is made by us or not
/// at all, and only its owner can enter it.
fn create_short_dir() -> Result<PathBuf, EmbeddedError> {
    let mut number = 0_u32;
    loop {
        let dir = PathBuf::from(format!("/tmp/twostep-{}-{number}", std::process::id()));
        match private_dir(&dir) {
            Ok(()) => return Ok(dir),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1000 => {
                number += 1;
            }
            Err(error) => return Err(io_error("create", &dir)(error)),
        }
    }
}

fn initdb(
    dir: &Path,
    binaries: &Binaries,
    account: Account,
    durability: Durability,
) -> Result<(), EmbeddedError> {
    let program = binaries.dir.join("initdb");
    let mut command = account.command(&program);
    // `trust` is for those who reach the socket, and only the server's own user and root do
    command.arg("-D").arg(dir).args(["-U", ROLE, "-A", "trust", "-E", "UTF8"]);
    command.arg(format!("--locale={LOCALE}"));
    if durability == Durability::Throwaway {
        command.arg("--no-sync");
    }
    let output = command.output().map_err(io_error("run", &program))?;
    succeeded("initdb", &output)
}

/// Creates our database without a running server, so that the cluster is complete when it gets
/// its name.
fn create_database(
    dir: &Path,
    binaries: &Binaries,
    account: Account,
    durability: Durability,
) -> Result<(), EmbeddedError> {
    let program = binaries.dir.join("postgres");
    let mut command = account.command(&program);
    command.arg("--single").arg("-D").arg(dir).args(["-c", "exit_on_error=on"]);
    if durability == Durability::Throwaway {
        command.arg("-F");
    }
    command.arg("postgres").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(io_error("run", &program))?;
    if let Some(mut stdin) = child.stdin.take() {
        // a server that ended early is told by its status, not by the broken pipe
        let _ = writeln!(stdin, "CREATE DATABASE {DATABASE}");
    }
    let output = child.wait_with_output().map_err(io_error("run", &program))?;
    succeeded("postgres --single", &output)
}

fn succeeded(program: &'static str, output: &Output) -> Result<(), EmbeddedError> {
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines.get(lines.len().saturating_sub(3)..).unwrap_or_default();
    Err(EmbeddedError::Program { program, status: output.status, output: last.join("; ") })
}
