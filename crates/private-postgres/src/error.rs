//! What can go wrong with the private server, in words an operator can act on.

use std::io;
use std::path::PathBuf;

/// Why the private Postgres could not be started or stopped.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// No usable binaries anywhere.
    #[error(
        "no PostgreSQL server (15 to 18) found on this machine: install postgresql \
         (apt-get install postgresql), or set PG_BIN_DIR to the folder with postgres and initdb, \
         or set DATABASE_URL to use a server that runs elsewhere"
    )]
    NoBinaries,

    /// `PG_BIN_DIR` was given and does not lead to a server.
    #[error("PG_BIN_DIR: {} {problem}", dir.display())]
    BinDir {
        /// The folder as given.
        dir: PathBuf,
        /// What is wrong with it.
        problem: String,
    },

    /// The cluster on disk needs another major version than those installed.
    #[error(
        "the database in {} was made by PostgreSQL {wanted}, which is not on this machine: \
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

    /// Another process of ours keeps this data directory.
    #[error(
        "the data directory {} is in use by another twostep process: stop it, \
         or choose another data directory",
        .0.display()
    )]
    InUse(PathBuf),

    /// Somebody came to look at a database that is not there.
    #[error("there is no database in {}", .0.display())]
    Empty(PathBuf),

    /// A throwaway server removes its directory, so it takes only a fresh one.
    #[error("the directory {} exists already: a throwaway server needs a new one", .0.display())]
    NotFresh(PathBuf),

    /// Postgres refuses to run as root, and the account it is given to cannot get there.
    #[error(
        "{} cannot be entered by the unprivileged user (uid {uid}) that must run Postgres when \
         the service is root: run the service as a normal user, choose another {what}, \
         or set DATABASE_URL",
        dir.display()
    )]
    NotReachable {
        /// The closed folder.
        dir: PathBuf,
        /// The account Postgres would run as.
        uid: u32,
        /// What lies behind that folder.
        what: &'static str,
    },

    /// A program of Postgres's own failed.
    #[error("{program} failed ({status}): {output}")]
    Program {
        /// Its name.
        program: &'static str,
        /// How it ended.
        status: std::process::ExitStatus,
        /// The last lines it wrote.
        output: String,
    },

    /// The server ended before it was ready.
    #[error("postgres ended at start ({status}): {last_line} (more in {})", log.display())]
    Exited {
        /// How it ended.
        status: std::process::ExitStatus,
        /// The last line of its log.
        last_line: String,
        /// The whole log.
        log: PathBuf,
    },

    /// The server neither became ready nor ended, or did not end when told to.
    #[error("postgres did not {action} within {seconds} s (see {})", log.display())]
    TimedOut {
        /// What was waited for.
        action: &'static str,
        /// For how long.
        seconds: u64,
        /// The server's log.
        log: PathBuf,
    },

    /// The system refused an operation.
    #[error("could not {action} {}", path.display())]
    Io {
        /// The operation, as a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's own words.
        source: io::Error,
    },

    /// The thread that does the work was lost.
    #[error("the thread that starts or stops postgres was lost")]
    Thread(#[from] tokio::task::JoinError),
}

/// Names the operation and the path of an IO error: `.map_err(io_error("create", &path))`.
pub(super) fn io_error(
    action: &'static str,
    path: &std::path::Path,
) -> impl FnOnce(io::Error) -> EmbeddedError + use<> {
    let path = path.to_owned();
    move |source| EmbeddedError::Io { action, path, source }
}
