//! The names of servers and of their tools.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// What the names of all tools of servers begin with.
const PREFIX: &str = "mcp__";
/// What stands between the name of a server and that of its tool.
const BETWEEN: &str = "__";
/// The longest name that the model's side takes, in bytes.
const MAX_NAME: usize = 64;
/// The longest name of a server, which leaves its tools some room.
const MAX_SERVER: usize = 32;
/// The longest name that a tool may have where it comes from.
const MAX_OWN_NAME: usize = 256;
/// Hexadecimal digits that tell names apart that look the same once they fit.
const DIGITS: usize = 8;

/// Whether a server may be called so. Two servers never share a name of a tool: no name has the two
/// underscores that end it, nor part of them at its end.
pub fn is_server_name(name: &str) -> bool {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (1..=MAX_SERVER).contains(&name.len())
        && name.chars().all(is_legal)
        && !name.contains(BETWEEN)
        && !name.starts_with('_')
        && !name.ends_with('_')
}

/// What the names of a server's tools begin with.
pub(in crate::tools) fn prefix(server: &str) -> String {
    format!("{PREFIX}{server}{BETWEEN}")
}

/// The name by which the model knows a tool of a server; none if the tool has no name, or one
/// without end. One that is too long or has other signs than the model's side takes is made to fit,
/// and ends with a part of the hash of what it was.
pub(super) fn name_of(server: &str, own: &str) -> Option<String> {
    if own.is_empty() || own.len() > MAX_OWN_NAME {
        return None;
    }
    let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let mut name = prefix(server);
    if own.chars().all(is_legal) && name.len() + own.len() <= MAX_NAME {
        name.push_str(own);
        return Some(name);
    }
    let fitted = own.chars().map(|c| if is_legal(c) { c } else { '_' });
    let room = MAX_NAME.saturating_sub(name.len() + DIGITS + 1);
    name.extend(fitted.take(room));
    name.push('_');
    for byte in Sha256::digest(own.as_bytes()).iter().take(DIGITS / 2) {
        let _ = write!(name, "{byte:02x}");
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_a_name_that_no_other_can_run_into() {
        for name in ["time", "git-hub", "my_files", "A1"] {
            assert!(is_server_name(name), "{name}");
        }
        let long = "a".repeat(MAX_SERVER + 1);
        for name in ["", "a__b", "_a", "a_", "a.b", "a b", "ä", &long] {
            assert!(!is_server_name(name), "{name}");
        }
    }

    #[test]
    fn a_plain_name_is_kept() {
        assert_eq!(name_of("time", "get_time").unwrap(), "mcp__time__get_time");
        let own = "x".repeat(MAX_NAME - "mcp__time__".len());
        assert_eq!(name_of("time", &own).unwrap(), format!("mcp__time__{own}"));
    }

    #[test]
    fn other_names_are_made_to_fit_and_told_apart_by_their_hashes() {
        assert_eq!(name_of("files", "fs.read").unwrap(), "mcp__files__fs_read_4074bc02");
        assert_ne!(name_of("files", "fs.read"), name_of("files", "fs/read"));
        let long = ["x".repeat(60), "x".repeat(61), "日本".repeat(20)];
        for own in long {
            let name = name_of(&"s".repeat(MAX_SERVER), &own).unwrap();
            assert_eq!(name.len(), MAX_NAME, "{name}");
        }
    }

    #[test]
    fn a_tool_without_a_name_or_with_an_endless_one_has_none() {
        assert_eq!(name_of("time", ""), None);
        assert_eq!(name_of("time", &"x".repeat(MAX_OWN_NAME + 1)), None);
    }
}
