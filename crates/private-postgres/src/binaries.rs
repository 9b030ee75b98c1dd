//! Discovery of installed Postgres servers.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use super::error::PrivatePostgresError;

/// Folders with one subfolder for each version, each with a `bin` folder.
const VERSIONED: [&str; 4] =
    ["/usr/lib/postgresql", "/usr/lib64/postgresql", "/opt/homebrew/opt", "/usr/local/opt"];

/// The parent and the name prefix of folders such as `pgsql-15`, each with a `bin` folder.
const PREFIXED: (&str, &str) = ("/usr", "pgsql-");

/// An installed server: a folder with `postgres` and `initdb` of a supported version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Binaries {
    /// The folder.
    pub(super) dir: PathBuf,
    /// The full version, such as `15.18`.
    pub(super) version: String,
    /// The major version, as in the `PG_VERSION` of a cluster.
    pub(super) major: u32,
}

/// Finds a server: in `bin_dir` only, if given; else in `search_path`, then in the usual folders,
/// newest version first. `existing_cluster` is the path and the `PG_VERSION` of an existing
/// cluster, which only a server of that major version can open.
pub(super) fn find(
    bin_dir: Option<&Path>,
    search_path: Option<&OsStr>,
    existing_cluster: Option<(&Path, &str)>,
) -> Result<Binaries, PrivatePostgresError> {
    let fits =
        |found: &Binaries| existing_cluster.is_none_or(|(_, v)| v == found.major.to_string());
    let no_match = |(cluster, wanted): (&Path, &str)| PrivatePostgresError::NoMatchingVersion {
        cluster: cluster.to_owned(),
        wanted: wanted.to_owned(),
    };
    if let Some(dir) = bin_dir {
        let found = inspect(dir)
            .map_err(|problem| PrivatePostgresError::BinDir { dir: dir.to_owned(), problem })?;
        return match existing_cluster {
            Some(cluster) if !fits(&found) => Err(no_match(cluster)),
            _ => Ok(found),
        };
    }
    let mut any = false;
    for dir in on_path(search_path).into_iter().chain(usual_folders()) {
        if let Ok(found) = inspect(&dir) {
            if fits(&found) {
                return Ok(found);
            }
            any = true;
        }
    }
    match existing_cluster {
        Some(cluster) if any => Err(no_match(cluster)),
        _ => Err(PrivatePostgresError::NoBinaries),
    }
}

/// Resolves `postgres` on the search path: the entry is often a link, and `initdb` and the server's
/// other files are next to its target.
fn on_path(search_path: Option<&OsStr>) -> Vec<PathBuf> {
    env::split_paths(search_path.unwrap_or_default())
        .filter_map(|dir| dir.join("postgres").canonicalize().ok()?.parent().map(Path::to_owned))
        .collect()
}

fn usual_folders() -> Vec<PathBuf> {
    let (parent, prefix) = PREFIXED;
    let prefixed = entries(Path::new(parent)).filter(|entry| {
        entry.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
    });
    let mut dirs: Vec<PathBuf> =
        VERSIONED.iter().flat_map(|base| entries(Path::new(base))).chain(prefixed).collect();
    dirs.sort_by_key(|dir| std::cmp::Reverse(trailing_number(dir)));
    dirs.into_iter().map(|dir| dir.join("bin")).collect()
}

fn entries(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Returns the version in `15`, `pgsql-16` or `postgresql@17`; 0 without one.
fn trailing_number(dir: &Path) -> u32 {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let digits = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    name.get(digits..).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Inspects one folder. The error describes the problem.
fn inspect(dir: &Path) -> Result<Binaries, String> {
    for program in ["postgres", "initdb"] {
        if !dir.join(program).is_file() {
            return Err(format!("has no {program}"));
        }
    }
    let output = Command::new(dir.join("postgres"))
        .arg("--version")
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("has a postgres that does not start: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let (version, major) = parse_version(&text)
        .ok_or_else(|| format!("has a postgres of unknown version: {}", text.trim()))?;
    if !(15..=18).contains(&major) {
        return Err(format!("has PostgreSQL {version}; 15 to 18 are supported"));
    }
    Ok(Binaries { dir: dir.to_owned(), version, major })
}

/// Parses `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`.
fn parse_version(text: &str) -> Option<(String, u32)> {
    let (_, rest) = text.split_once("(PostgreSQL) ")?;
    let version = rest.split_whitespace().next()?;
    let digits = version.chars().take_while(char::is_ascii_digit).collect::<String>();
    Some((version.to_owned(), digits.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_formats_of_all_vendors_are_parsed() {
        let cases = [
            ("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n", Some(("15.18", 15))),
            ("postgres (PostgreSQL) 18.6\n", Some(("18.6", 18))),
            ("postgres (PostgreSQL) 19beta1", Some(("19beta1", 19))),
            ("something else", None),
        ];
        for (text, want) in cases {
            let got = parse_version(text);
            assert_eq!(got.as_ref().map(|(v, m)| (v.as_str(), *m)), want, "{text}");
        }
    }

    #[test]
    fn newer_folders_come_first_by_number() {
        let mut dirs = ["9.6", "15", "postgresql@17", "pgsql-16", "redis"].map(PathBuf::from);
        dirs.sort_by_key(|dir| std::cmp::Reverse(trailing_number(dir)));
        assert_eq!(dirs, ["postgresql@17", "pgsql-16", "15", "9.6", "redis"].map(PathBuf::from));
    }

    #[test]
    fn an_invalid_bin_dir_is_named() {
        let error = find(Some(Path::new("/nowhere/bin")), None, None).unwrap_err();
        assert_eq!(error.to_string(), "PG_BIN_DIR: /nowhere/bin has no postgres");
    }

    #[test]
    fn a_cluster_of_another_version_is_not_opened() {
        let existing_cluster = Some((Path::new("/data/pg"), "12"));
        let bin_dir = env::var_os("PG_BIN_DIR").map(PathBuf::from);
        let path = env::var_os("PATH");
        let error = find(bin_dir.as_deref(), path.as_deref(), existing_cluster).unwrap_err();
        assert!(error.to_string().contains("/data/pg was created by PostgreSQL 12"), "{error}");
    }

    #[test]
    fn without_binaries_one_line_names_three_remedies() {
        let text = PrivatePostgresError::NoBinaries.to_string();
        for way in ["install postgresql", "PG_BIN_DIR", "DATABASE_URL"] {
            assert!(text.contains(way), "{way}");
        }
        assert!(!text.contains('\n'));
    }
}
