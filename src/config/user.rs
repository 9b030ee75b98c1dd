//! Users of the operating system.

use std::fs;

use anyhow::{Context as _, ensure};
use rustix::process::geteuid;

use crate::tools::mcp::UserIds;

/// The file with the users of the machine.
const USERS: &str = "/etc/passwd";

/// Returns the ids of the user with this name. The service must run as root, which alone can start
/// programs as other users.
pub(super) fn user_ids(name: &str) -> anyhow::Result<UserIds> {
    ensure!(geteuid().is_root(), "user {name:?} needs a service that runs as root");
    let users = fs::read_to_string(USERS).with_context(|| format!("{USERS} cannot be read"))?;
    let ids = find(&users, name).with_context(|| format!("user {name:?} is not in {USERS}"))?;
    ensure!(ids.uid != 0, "user {name:?} is root, which can read the memory of the service");
    Ok(ids)
}

fn find(users: &str, name: &str) -> Option<UserIds> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next()? != name {
            return None;
        }
        Some(UserIds { uid: fields.nth(1)?.parse().ok()?, gid: fields.next()?.parse().ok()? })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_its_exact_name() {
        let users = "root:x:0:0::/root:/bin/sh\nmcp:x:104:105:Tools:/:/bin/false\nodd:x\n";
        assert_eq!(find(users, "mcp"), Some(UserIds { uid: 104, gid: 105 }));
        for name in ["mc", "odd", "", "x"] {
            assert_eq!(find(users, name), None, "{name}");
        }
    }
}
