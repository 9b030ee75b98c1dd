//! The data directory: its folders, its lock, and the cluster, created on first start.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use super::account::Account;
use super::binaries::Binaries;
use super::error::{PrivatePostgresError, io_error};
use super::{DATABASE, Durability, ROLE};

/// The locale of the cluster: sorting by bytes and Unicode case mapping, the same on every system.
pub(super) const LOCALE: &str = if cfg!(target_os = "macos") { "en_US.UTF-8" } else { "C.UTF-8" };

/// Maximum length of a Unix socket path without its NUL (Linux; four bytes less on macOS).
const SOCKET_PATH_MAX: usize = 103;

/// The name of the socket. Postgres derives it from the port, which is 5432.
const SOCKET_NAME: &str = ".s.PGSQL.5432";

/// The lock file next to the socket. It contains the server's process id.
pub(super) const SOCKET_LOCK: &str = ".s.PGSQL.5432.lock";

/// The folders of a private server.
#[derive(Debug)]
pub(super) struct Layout {
    /// The data directory.
    pub(super) data_dir: PathBuf,
    /// The cluster, with its `PG_VERSION`.
    pub(super) cluster: PathBuf,
    /// The folder of the socket: `run` in the data directory, or a short path elsewhere.
    pub(super) socket_dir: PathBuf,
    /// The server's log.
    pub(super) log: PathBuf,
    /// Held for the life of the server. The kernel releases it when the process ends.
    _lock: File,
}

impl Layout {
    /// Opens the data directory, creates it if it does not exist, and locks it.
    pub(super) fn open(
        data_dir: &Path,
        durability: Durability,
    ) -> Result<Self, PrivatePostgresError> {
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

    /// The `PG_VERSION` of the cluster; `None` before the first start.
    pub(super) fn cluster_version(&self) -> Option<String> {
        let text = fs::read_to_string(self.cluster.join("PG_VERSION")).ok()?;
        Some(text.trim().to_owned())
    }

    /// Creates the folder of the socket for the server's user. If its path is too long for a
    /// socket, a short private folder replaces it.
    pub(super) fn create_socket_dir(
        &mut self,
        account: Account,
    ) -> Result<(), PrivatePostgresError> {
        if self.socket_dir.join(SOCKET_NAME).as_os_str().len() > SOCKET_PATH_MAX {
            self.socket_dir = create_short_dir()?;
            tracing::info!(
                data.dir = %self.data_dir.display(),
                socket.dir = %self.socket_dir.display(),
                "socket path too long; using a short folder"
            );
            return account.own(&self.socket_dir);
        }
        self.make_socket_dir(account)
    }

    /// Creates the folder of the socket unless it exists.
    pub(super) fn make_socket_dir(&self, account: Account) -> Result<(), PrivatePostgresError> {
        if let Err(error) = private_dir(&self.socket_dir)
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(io_error("create", &self.socket_dir)(error));
        }
        account.own(&self.socket_dir)
    }

    /// True if the socket is outside the data directory, in a folder that is removed with the
    /// server.
    pub(super) fn has_short_socket_dir(&self) -> bool {
        !self.socket_dir.starts_with(&self.data_dir)
    }

    /// Creates the cluster with the role and the database. It is built under a temporary name and
    /// renamed when complete, so an interrupted first start leaves no partial cluster.
    pub(super) fn create_cluster(
        &self,
        binaries: &Binaries,
        account: Account,
        durability: Durability,
    ) -> Result<(), PrivatePostgresError> {
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

/// Creates the data directory, accessible only to its owner; for root, the server's user can pass
/// through it. An existing directory keeps its mode.
fn create_data_dir(dir: &Path, durability: Durability) -> Result<(), PrivatePostgresError> {
    // For root, the server's user passes through all of these folders.
    let mode = if rustix::process::geteuid().is_root() { 0o711 } else { 0o700 };
    if let Some(parent) = dir.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(mode)
            .create(parent)
            .map_err(io_error("create", parent))?;
    }
    match private_dir(dir) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return match durability {
                Durability::Durable => Ok(()),
                Durability::Throwaway => Err(PrivatePostgresError::NotFresh(dir.to_owned())),
            };
        }
        Err(error) => return Err(io_error("create", dir)(error)),
    }
    fs::set_permissions(dir, Permissions::from_mode(mode)).map_err(io_error("chmod", dir))
}

fn private_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(dir)
}

/// Locks the data directory: at most one live server uses it.
fn lock(data_dir: &Path) -> Result<File, PrivatePostgresError> {
    let path = data_dir.join("lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&path)
        .map_err(io_error("open", &path))?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(PrivatePostgresError::InUse(data_dir.to_owned())),
        Err(error) => Err(io_error("lock", &path)(error.into())),
    }
}

/// Creates a new folder with a short path. The name need not be secret: creation fails if it
/// exists, and only its owner can enter it.
fn create_short_dir() -> Result<PathBuf, PrivatePostgresError> {
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
) -> Result<(), PrivatePostgresError> {
    let program = binaries.dir.join("initdb");
    let mut command = account.command(&program);
    // `trust` applies to users who can reach the socket: the server's own user and root.
    command.arg("-D").arg(dir).args(["-U", ROLE, "-A", "trust", "-E", "UTF8"]);
    command.arg(format!("--locale={LOCALE}"));
    if durability == Durability::Throwaway {
        command.arg("--no-sync");
    }
    let output = command.output().map_err(io_error("run", &program))?;
    succeeded("initdb", &output)
}

/// Creates the database without a running server, so that the cluster is complete before its
/// rename.
fn create_database(
    dir: &Path,
    binaries: &Binaries,
    account: Account,
    durability: Durability,
) -> Result<(), PrivatePostgresError> {
    let program = binaries.dir.join("postgres");
    let mut command = account.command(&program);
    command.arg("--single").arg("-D").arg(dir).args(["-c", "exit_on_error=on"]);
    if durability == Durability::Throwaway {
        command.arg("-F");
    }
    command.arg("postgres").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(io_error("run", &program))?;
    if let Some(mut stdin) = child.stdin.take() {
        // If the server ended early, its status explains why; the broken pipe does not.
        let _ = writeln!(stdin, "CREATE DATABASE {DATABASE}");
    }
    let output = child.wait_with_output().map_err(io_error("run", &program))?;
    succeeded("postgres --single", &output)
}

fn succeeded(program: &'static str, output: &Output) -> Result<(), PrivatePostgresError> {
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines.get(lines.len().saturating_sub(3)..).unwrap_or_default();
    Err(PrivatePostgresError::Program { program, status: output.status, output: last.join("; ") })
}
