//! Errors of the private server, with remedies for the operator.

use std::io;
use std::path::PathBuf;

/// The reason that the private Postgres could not start or stop.
#[derive(Debug, thiserror::Error)]
pub enum PrivatePostgresError {
    /// No supported server is installed.
    #[error(
        "no PostgreSQL server (15 to 18) found on this machine: install postgresql \
         (apt-get install postgresql), or set PG_BIN_DIR to the folder with postgres and initdb, \
         or set DATABASE_URL to use a server that runs elsewhere"
    )]
    NoBinaries,

    /// `PG_BIN_DIR` names a folder without a supported server.
    #[error("PG_BIN_DIR: {} {problem}", dir.display())]
    BinDir {
        /// The folder as given.
        dir: PathBuf,
        /// The problem with the folder.
        problem: String,
    },

    /// The cluster needs a major version that is not installed.
    #[error(
        "the database in {} was created by PostgreSQL {wanted}, which is not installed: \
         install PostgreSQL {wanted}, or set PG_BIN_DIR to its bin folder, \
         or choose another data directory",
        cluster.display()
    )]
    NoMatchingVersion {
        /// The cluster directory.
        cluster: PathBuf,
        /// Its major version, as in its `PG_VERSION`.
        wanted: String,
    },

    /// Another process of this program uses the data directory.
    #[error(
        "the data directory {} is in use by another twostep process: stop it, \
         or choose another data directory",
        .0.display()
    )]
    InUse(PathBuf),

    /// The data directory has no database.
    #[error("there is no database in {}", .0.display())]
    Empty(PathBuf),

    /// The directory of a throwaway server exists. It must be new, because the server removes it at
    /// its end.
    #[error("the directory {} exists: a throwaway server needs a new one", .0.display())]
    NotFresh(PathBuf),

    /// Postgres refuses to run as root, and the user that runs it cannot enter a folder.
    #[error(
        "{} cannot be entered by the unprivileged user (uid {uid}) that must run Postgres when \
         the service is root: run the service as a normal user, choose another {what}, \
         or set DATABASE_URL",
        dir.display()
    )]
    NotReachable {
        /// The folder that the user cannot enter.
        dir: PathBuf,
        /// The user id of the server.
        uid: u32,
        /// The folder that the server needs, inside that folder.
        what: &'static str,
    },

    /// A Postgres program failed.
    #[error("{program} failed ({status}): {output}")]
    Program {
        /// The name of the program.
        program: &'static str,
        /// The exit status.
        status: std::process::ExitStatus,
        /// The last lines of its output.
        output: String,
    },

    /// The server ended before it was ready.
    #[error("postgres ended at start ({status}): {last_line} (more in {})", log.display())]
    Exited {
        /// The exit status.
        status: std::process::ExitStatus,
        /// The last line of its log.
        last_line: String,
        /// The path of the log.
        log: PathBuf,
    },

    /// The server did not become ready, or did not end, in time.
    #[error("postgres did not {action} within {seconds} s (see {})", log.display())]
    TimedOut {
        /// The awaited action, as a verb.
        action: &'static str,
        /// The timeout in seconds.
        seconds: u64,
        /// The server's log.
        log: PathBuf,
    },

    /// An operation of the system failed.
    #[error("could not {action} {}", path.display())]
    Io {
        /// The operation, as a verb.
        action: &'static str,
        /// The path of the file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },

    /// The thread that starts or stops the server panicked.
    #[error("the thread that starts or stops postgres panicked")]
    Thread(#[from] tokio::task::JoinError),
}

/// Adds the operation and the path to an IO error: `.map_err(io_error("create", &path))`.
pub(super) fn io_error(
    action: &'static str,
    path: &std::path::Path,
) -> impl FnOnce(io::Error) -> PrivatePostgresError + use<> {
    let path = path.to_owned();
    move |source| PrivatePostgresError::Io { action, path, source }
}
