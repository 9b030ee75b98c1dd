//! The operating system user that runs the server. Postgres refuses to run as root, so a service
//! that runs as root uses an unprivileged user.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::error::{PrivatePostgresError, io_error};

/// The user id of `nobody` if `/etc/passwd` has no such entry.
const NOBODY: u32 = 65_534;

/// The user that runs the Postgres programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Account {
    /// The user of this process.
    Own,
    /// An unprivileged user, because this process runs as root.
    Dropped {
        /// Its user id.
        uid: u32,
        /// Its group id.
        gid: u32,
    },
}

impl Account {
    /// Returns the user of this process unless it is root. For root: the owner of `cluster` if it
    /// exists, else `postgres`, else `nobody`.
    pub(super) fn choose(cluster: &Path) -> Result<Self, PrivatePostgresError> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self::Own);
        }
        match fs::metadata(cluster) {
            Ok(meta) if meta.uid() != 0 => {
                return Ok(Self::Dropped { uid: meta.uid(), gid: meta.gid() });
            }
            _ => {}
        }
        let path = Path::new("/etc/passwd");
        let accounts = fs::read_to_string(path).map_err(io_error("read", path))?;
        let (uid, gid) = ["postgres", "nobody"]
            .iter()
            .find_map(|name| find_user(&accounts, name))
            .unwrap_or((NOBODY, NOBODY));
        Ok(Self::Dropped { uid, gid })
    }

    /// Returns a command that runs `program` as this user, in its own process group (Ctrl-C in the
    /// terminal must reach this process first) and with an empty environment.
    pub(super) fn command(self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("LC_ALL", super::cluster::LOCALE)
            .env("TZ", "UTC")
            .current_dir("/")
            .stdin(Stdio::null())
            .process_group(0);
        if let Self::Dropped { uid, gid } = self {
            command.uid(uid).gid(gid); // std drops the supplementary groups as well
        }
        command
    }

    /// Changes the owner of a path to this user.
    pub(super) fn own(self, path: &Path) -> Result<(), PrivatePostgresError> {
        let Self::Dropped { uid, gid } = self else {
            return Ok(());
        };
        std::os::unix::fs::chown(path, Some(uid), Some(gid)).map_err(io_error("chown", path))
    }

    /// Checks that this user can enter `dir` and every folder above it. `what` names the folder in
    /// the error.
    pub(super) fn check_reach(
        self,
        dir: &Path,
        what: &'static str,
    ) -> Result<(), PrivatePostgresError> {
        let Self::Dropped { uid, gid } = self else {
            return Ok(());
        };
        for folder in dir.ancestors() {
            let meta = fs::metadata(folder).map_err(io_error("inspect", folder))?;
            let needed = match (meta.uid() == uid, meta.gid() == gid) {
                (true, _) => 0o100,
                (false, true) => 0o010,
                (false, false) => 0o001,
            };
            if meta.permissions().mode() & needed == 0 {
                return Err(PrivatePostgresError::NotReachable {
                    dir: folder.to_owned(),
                    uid,
                    what,
                });
            }
        }
        Ok(())
    }
}

/// Returns the user and group id of `name` from the text of `/etc/passwd`.
fn find_user(accounts: &str, name: &str) -> Option<(u32, u32)> {
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next()? != name {
            return None;
        }
        Some((fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_from_the_account_file() {
        let text = "root:x:0:0:root:/root:/bin/sh\npostgres:x:101:104:PG:/var/lib:/bin/sh\nbad:x\n";
        assert_eq!(find_user(text, "postgres"), Some((101, 104)));
        assert_eq!(find_user(text, "bad"), None);
        assert_eq!(find_user(text, "nobody"), None);
    }

    #[test]
    fn a_folder_without_permission_on_the_path_is_named() {
        let top = tempfile::tempdir_in("/tmp").unwrap();
        let inner = top.path().join("closed/inner");
        fs::create_dir_all(&inner).unwrap();
        fs::set_permissions(top.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(inner.parent().unwrap(), fs::Permissions::from_mode(0o700)).unwrap();
        let account = Account::Dropped { uid: 12_345, gid: 12_345 };
        let error = account.check_reach(&inner, "data directory").unwrap_err().to_string();
        assert!(error.contains("closed cannot be entered"), "{error}");
        assert!(error.contains("uid 12345"), "{error}");
        assert!(Account::Own.check_reach(&inner, "data directory").is_ok());
    }
}
