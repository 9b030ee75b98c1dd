//! Access to an existing data directory, for commands that read a database and must not create one.

use std::fs;
use std::path::{Path, PathBuf};

use sqlx::postgres::PgConnectOptions;

use super::error::{PrivatePostgresError, io_error};
use super::{Options, PrivatePostgres, connect_options};

/// A private server of an existing data directory.
#[derive(Debug)]
pub enum Existing {
    /// The server was not running. This process started it and must stop it.
    Started(PrivatePostgres),
    /// Another process runs the server and keeps it running.
    Running(PgConnectOptions),
}

impl Existing {
    /// Finds the running server of a data directory, or starts it. A directory without a database
    /// stays unchanged.
    pub async fn open(options: &Options) -> Result<Self, PrivatePostgresError> {
        let version = options.data_dir.join("pg/PG_VERSION");
        if !version.try_exists().map_err(io_error("read", &version))? {
            return Err(PrivatePostgresError::Empty(options.data_dir.clone()));
        }
        match PrivatePostgres::start(options).await {
            Ok(server) => Ok(Self::Started(server)),
            Err(PrivatePostgresError::InUse(data_dir)) => {
                let Some(socket_dir) = socket_dir(&data_dir.join("pg")) else {
                    return Err(PrivatePostgresError::InUse(data_dir));
                };
                Ok(Self::Running(connect_options(&socket_dir)))
            }
            Err(error) => Err(error),
        }
    }

    /// The connection options of the database.
    pub fn connect_options(&self) -> PgConnectOptions {
        match self {
            Self::Started(server) => server.connect_options(),
            Self::Running(options) => options.clone(),
        }
    }

    /// Stops the server if this process started it.
    pub async fn close(self) -> Result<(), PrivatePostgresError> {
        match self {
            Self::Started(server) => server.stop().await,
            Self::Running(_) => Ok(()),
        }
    }
}

/// Reads the folder of the socket from `postmaster.pid`. Line 5 has the folder, which differs from
/// the default for a long path; line 8 says whether the server accepts connections.
fn socket_dir(cluster: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(cluster.join("postmaster.pid")).ok()?;
    let mut lines = text.lines().map(str::trim).skip(4);
    let socket_dir = lines.next().filter(|line| !line.is_empty())?;
    (lines.nth(2) == Some("ready")).then(|| socket_dir.into())
}
