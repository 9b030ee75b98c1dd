//! The default database: a private Postgres server, made of the programs that are installed.
//!
//! Without a `DATABASE_URL` the service keeps a cluster of its own under its data directory and
//! runs an ordinary Postgres server on it, reachable only through a Unix socket in a private
//! folder: no TCP port, no password. It is durable, and it ends with the service in every way the
//! service can end (see `watchdog.rs`); whatever still remains, the next start clears away.
//!
//! Folders under the data directory: `pg` (the cluster), `run` (the socket), `postgres.log`,
//! `lock`. When the service is root the server runs as `postgres` or `nobody`, and `pg` and `run`
//! belong to that user.

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
pub use self::error::EmbeddedError;
pub use self::existing::Existing;
use self::server::Server;

/// The role that owns everything in the private cluster.
const ROLE: &str = "twostep";

/// The database made on first start.
const DATABASE: &str = "twostep";

/// How much the data is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// What is committed survives crashes and power cuts.
    Durable,
    /// For tests: as fast as possible. The data directory must be new, and it is removed with the
    /// server (by the server's user: under `/tmp` that works for root as well).
    Throwaway,
}

/// Where the server lives and where its programs are.
#[derive(Debug, Clone)]
pub struct Options {
    /// Made when missing. One server at a time.
    pub data_dir: PathBuf,
    /// The folder of `postgres` and `initdb` (`PG_BIN_DIR`); none means to search.
    pub bin_dir: Option<PathBuf>,
    /// Folders to search first, in the form of `PATH`; the usual places of a Postgres follow.
    pub search_path: Option<OsString>,
    /// How much the data is worth.
    pub durability: Durability,
}

/// A running private server. It needs no runtime while it runs. Dropping it ends the server as
/// well, without waiting for it; [`EmbeddedPostgres::stop`] waits.
#[derive(Debug)]
pub struct EmbeddedPostgres {
    // the server goes before the layout, whose lock says that it is ours
    server: Server,
    layout: Layout,
    binaries: Binaries,
    account: Account,
    durability: Durability,
}

/// How often the server is looked at, and how long after a start that failed the next one comes.
const LOOK_EVERY: Duration = Duration::from_millis(250);

impl EmbeddedPostgres {
    /// Starts the server, after making its cluster on the first start. The work is done on a
    /// blocking thread; if the future is dropped, the server is ended as soon as it is up.
    pub async fn start(options: &Options) -> Result<Self, EmbeddedError> {
        let options = options.clone();
        tokio::task::spawn_blocking(move || Self::start_blocking(&options)).await?
    }

    /// [`EmbeddedPostgres::start`] for callers without a runtime.
    pub fn start_blocking(options: &Options) -> Result<Self, EmbeddedError> {
        let durability = options.durability;
        let mut layout = Layout::open(&options.data_dir, durability)?;
        let version = layout.made_by();
        let made_by = version.as_deref().map(|version| (layout.cluster.as_path(), version));
        let bin_dir = options.bin_dir.as_deref();
        let binaries = binaries::find(bin_dir, options.search_path.as_deref(), made_by)?;
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

    /// Looks after the server until it is told to stop: one that somebody has killed is started
    /// again, as an operator's would be.
    pub async fn keep(mut self, stop: CancellationToken) -> Result<Self, EmbeddedError> {
        while stop.run_until_cancelled(sleep(LOOK_EVERY)).await.is_some() {
            if !self.server.has_ended() {
                continue;
            }
            tracing::error!("the private database has ended, and is started again");
            let (kept, started) = tokio::task::spawn_blocking(move || {
                let started = self.start_again();
                (self, started)
            })
            .await?;
            self = kept;
            match started {
                Ok(()) => tracing::info!("the private database is back"),
                Err(error) => tracing::error!(%error, "the private database cannot be started"),
            }
        }
        Ok(self)
    }

    fn start_again(&mut self) -> Result<(), EmbeddedError> {
        self.server.let_go();
        self.layout.renew_socket_dir(self.account)?;
        self.server = Server::start(&self.layout, &self.binaries, self.account, self.durability)?;
        Ok(())
    }

    /// How to connect to its database.
    pub fn connect_options(&self) -> PgConnectOptions {
        connect_options(&self.layout.socket_dir)
    }

    /// The same as a URL, for other programs.
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

    /// The server's version, such as `15.18`.
    pub fn version(&self) -> &str {
        &self.binaries.version
    }

    /// The folder its programs are in.
    pub fn bin_dir(&self) -> &Path {
        &self.binaries.dir
    }

    /// The folder its data is in, without symbolic links.
    pub fn data_dir(&self) -> &Path {
        &self.layout.data_dir
    }

    /// Ends the server and waits for it: connections are closed, open transactions rolled back.
    pub async fn stop(self) -> Result<(), EmbeddedError> {
        tokio::task::spawn_blocking(move || self.stop_blocking()).await?
    }

    /// [`EmbeddedPostgres::stop`] for callers without a runtime.
    pub fn stop_blocking(mut self) -> Result<(), EmbeddedError> {
        self.server.stop()?;
        // the watchdog removes the same; whoever comes second finds nothing
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
