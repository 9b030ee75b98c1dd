//! A data directory as it is found: for those who come to look, and make nothing.

use std::fs;
use std::path::{Path, PathBuf};

use sqlx::postgres::PgConnectOptions;

use super::error::{EmbeddedError, io_error};
use super::{EmbeddedPostgres, Options, connect_options};

/// A private server that can be asked.
#[derive(Debug)]
pub enum Existing {
    /// Nobody ran it: it was started, and is ours to stop.
    Started(EmbeddedPostgres),
    /// Another process runs it, and goes on to.
    Running(PgConnectOptions),
}

impl Existing {
    /// Finds the server of a data directory that another process keeps, or starts it. A directory
    /// without a database is left as it is.
    pub async fn open(options: &Options) -> Result<Self, EmbeddedError> {
        let version = options.data_dir.join("pg/PG_VERSION");
        if !version.try_exists().map_err(io_error("read", &version))? {
            return Err(EmbeddedError::Empty(options.data_dir.clone()));
        }
        match EmbeddedPostgres::start(options).await {
            Ok(server) => Ok(Self::Started(server)),
            Err(EmbeddedError::InUse(data_dir)) => {
                let Some(socket_dir) = socket_dir(&data_dir.join("pg")) else {
                    return Err(EmbeddedError::InUse(data_dir));
                };
                Ok(Self::Running(connect_options(&socket_dir)))
            }
            Err(error) => Err(error),
        }
    }

    /// How to connect to its database.
    pub fn connect_options(&self) -> PgConnectOptions {
        match self {
            Self::Started(server) => server.connect_options(),
            Self::Running(options) => options.clone(),
        }
    }

    /// Stops what was started.
    pub async fn close(self) -> Result<(), EmbeddedError> {
        match self {
            Self::Started(server) => server.stop().await,
            Self::Running(_) => Ok(()),
        }
    }
}

/// Line 5 of `postmaster.pid` is where a server listens, which for a long path is not beside its
/// data; line 8 says whether it takes connections.
fn socket_dir(cluster: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(cluster.join("postmaster.pid")).ok()?;
    let mut lines = text.lines().map(str::trim).skip(4);
    let socket_dir = lines.next().filter(|line| !line.is_empty())?;
    (lines.nth(2) == Some("ready")).then(|| socket_dir.into())
}
