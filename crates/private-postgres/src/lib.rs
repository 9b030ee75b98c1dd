//! A private Postgres server, run from the installed Postgres programs.
//!
//! It is the default database of the service: without a `DATABASE_URL` the service keeps a cluster
//! under its data directory and runs an ordinary Postgres server on it. Clients reach the server
//! only through a Unix socket in a private folder, without a TCP port and without a password. The
//! server is durable. It ends with its owner, even if the owner is killed (see `watchdog.rs`); the
//! next start cleans up all remains.
//!
//! The data directory contains `pg` (the cluster), `run` (the socket), `postgres.log` and `lock`.
//! If the owner runs as root, the server runs as `postgres` or `nobody`, and that user owns `pg`
//! and `run`.

mod account;
mod binaries;
mod cluster;
mod error;
mod existing;
mod predecessor;
mod server;
#[cfg(test)]
mod tests;
mod watchdog;

use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgSslMode};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use self::account::Account;
use self::binaries::Binaries;
use self::cluster::Layout;
pub use self::error::PrivatePostgresError;
pub use self::existing::Existing;
use self::server::Server;

/// The role that owns all objects of the cluster.
const ROLE: &str = "twostep";

/// The database that the first start creates.
const DATABASE: &str = "twostep";

/// The durability of a server's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Committed data survives crashes and power failures.
    Durable,
    /// For tests: as fast as possible, without durability. The data directory must be new. The
    /// watchdog removes it with the server (as the server's user: under `/tmp` that works for root
    /// as well).
    Throwaway,
}

/// The options of a private server.
#[derive(Debug, Clone)]
pub struct Options {
    /// The data directory, created if it does not exist. At most one server uses it.
    pub data_dir: PathBuf,
    /// The folder of `postgres` and `initdb` (`PG_BIN_DIR`); `None` searches for one.
    pub bin_dir: Option<PathBuf>,
    /// Folders to search first, in the format of `PATH`; the usual folders of Postgres follow.
    pub search_path: Option<OsString>,
    /// The durability of the data.
    pub durability: Durability,
}

/// A running private server. It needs no async runtime while it runs. Dropping it stops the server
/// without waiting; [`PrivatePostgres::stop`] waits.
#[derive(Debug)]
pub struct PrivatePostgres {
    // Drop order: the server stops before the layout releases the lock of the data directory.
    server: Server,
    layout: Layout,
    binaries: Binaries,
    account: Account,
    durability: Durability,
}

/// The interval of the checks in [`PrivatePostgres::supervise`], and the pause after a failed restart.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

impl PrivatePostgres {
    /// Starts the server; the first start creates its cluster. The work runs on a blocking thread.
    /// If the future is dropped, the server stops as soon as it is up.
    pub async fn start(options: &Options) -> Result<Self, PrivatePostgresError> {
        let options = options.clone();
        tokio::task::spawn_blocking(move || Self::start_blocking(&options)).await?
    }

    /// The same as [`PrivatePostgres::start`], for callers without an async runtime.
    pub fn start_blocking(options: &Options) -> Result<Self, PrivatePostgresError> {
        let durability = options.durability;
        let mut layout = Layout::open(&options.data_dir, durability)?;
        let version = layout.cluster_version();
        let existing_cluster =
            version.as_deref().map(|version| (layout.cluster.as_path(), version));
        let bin_dir = options.bin_dir.as_deref();
        let binaries = binaries::find(bin_dir, options.search_path.as_deref(), existing_cluster)?;
        let account = Account::choose(&layout.cluster)?;
        let programs = binaries.dir.canonicalize().unwrap_or_else(|_| binaries.dir.clone());
        account.check_reach(&programs, "folder of Postgres programs")?;
        account.check_reach(&layout.data_dir, "data directory")?;
        if durability == Durability::Throwaway {
            account.own(&layout.data_dir)?; // the watchdog removes it
        }
        if version.is_none() {
            layout.create_cluster(&binaries, account, durability)?;
        }
        layout.create_socket_dir(account)?;
        let server = Server::start(&layout, &binaries, account, durability)?;
        Ok(Self { server, layout, binaries, account, durability })
    }

    /// Supervises the server until `stop` is cancelled: restarts it if its process was killed.
    pub async fn supervise(
        mut self,
        stop: CancellationToken,
    ) -> Result<Self, PrivatePostgresError> {
        while stop.run_until_cancelled(sleep(CHECK_INTERVAL)).await.is_some() {
            if !self.server.has_ended() {
                continue;
            }
            tracing::error!("private database ended; restarting it");
            let (kept, started) = tokio::task::spawn_blocking(move || {
                let started = self.start_again();
                (self, started)
            })
            .await?;
            self = kept;
            match started {
                Ok(()) => tracing::info!("private database restarted"),
                Err(error) => tracing::error!(%error, "private database not restarted"),
            }
        }
        Ok(self)
    }

    fn start_again(&mut self) -> Result<(), PrivatePostgresError> {
        self.server.dismiss_watchdog();
        self.layout.make_socket_dir(self.account)?; // a failed restart removes a short one
        self.server = Server::start(&self.layout, &self.binaries, self.account, self.durability)?;
        Ok(())
    }

    /// The connection options of the database.
    pub fn connect_options(&self) -> PgConnectOptions {
        connect_options(&self.layout.socket_dir)
    }

    /// The connection URL, for other programs.
    pub fn url(&self) -> String {
        let mut host = String::new();
        for byte in self.layout.socket_dir.as_os_str().as_encoded_bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
                host.push(char::from(*byte));
            } else {
                let _ = write!(host, "%{byte:02X}"); // writing to a string does not fail
            }
        }
        format!("postgres://{ROLE}@localhost:5432/{DATABASE}?host={host}")
    }

    /// The version of the server, such as `15.18`.
    pub fn version(&self) -> &str {
        &self.binaries.version
    }

    /// The folder of the server's programs.
    pub fn bin_dir(&self) -> &Path {
        &self.binaries.dir
    }

    /// The data directory, without symbolic links.
    pub fn data_dir(&self) -> &Path {
        &self.layout.data_dir
    }

    /// Stops the server and waits for its end. Connections are closed, open transactions rolled
    /// back.
    pub async fn stop(self) -> Result<(), PrivatePostgresError> {
        tokio::task::spawn_blocking(move || self.stop_blocking()).await?
    }

    /// The same as [`PrivatePostgres::stop`], for callers without an async runtime.
    pub fn stop_blocking(mut self) -> Result<(), PrivatePostgresError> {
        self.server.stop()?;
        // The watchdog removes the same folder; the second removal finds nothing.
        if self.layout.has_short_socket_dir() {
            let _ = fs::remove_dir_all(&self.layout.socket_dir);
        }
        if self.durability == Durability::Throwaway {
            let _ = fs::remove_dir_all(&self.layout.data_dir);
        }
        Ok(())
    }
}

fn connect_options(socket_dir: &Path) -> PgConnectOptions {
    PgConnectOptions::new_without_pgpass()
        .socket(socket_dir)
        .port(5432)
        .username(ROLE)
        .database(DATABASE)
        .ssl_mode(PgSslMode::Disable)
}
