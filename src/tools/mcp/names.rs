//! The names of MCP servers and of their tools.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// The prefix of the names of all MCP tools.
const PREFIX: &str = "mcp__";
/// The separator between the name of a server and the name of its tool.
const BETWEEN: &str = "__";
/// Maximum length of a tool name in the model API, in bytes.
const MAX_NAME: usize = 64;
/// Maximum length of a server name, in bytes. The rest is for the tool name.
const MAX_SERVER: usize = 32;
/// Maximum length of the name that a server gives a tool, in bytes.
const MAX_OWN_NAME: usize = 256;
/// Number of hexadecimal digits of the hash suffix of a shortened name.
const DIGITS: usize = 8;

/// Returns `true` if this is a valid server name. A valid name neither contains the separator nor
/// begins or ends with an underscore, so tools of two servers never have the same name.
pub fn is_server_name(name: &str) -> bool {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (1..=MAX_SERVER).contains(&name.len())
        && name.chars().all(is_legal)
        && !name.contains(BETWEEN)
        && !name.starts_with('_')
        && !name.ends_with('_')
}

/// Returns the prefix of the names of a server's tools.
pub(in crate::tools) fn prefix(server: &str) -> String {
    format!("{PREFIX}{server}{BETWEEN}")
}

/// Returns the name of a server's tool for the model, or `None` if the server's name for it is
/// empty or too long. Characters that the model API does not permit are replaced, and a name that
/// does not fit is shortened. Such a name ends with a part of the hash of the original.
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
    fn server_names_cannot_produce_colliding_tool_names() {
        for name in ["time", "git-hub", "my_files", "A1"] {
            assert!(is_server_name(name), "{name}");
        }
        let long = "a".repeat(MAX_SERVER + 1);
        for name in ["", "a__b", "_a", "a_", "a.b", "a b", "ä", &long] {
            assert!(!is_server_name(name), "{name}");
        }
    }

    #[test]
    fn a_valid_tool_name_is_kept() {
        assert_eq!(name_of("time", "get_time").unwrap(), "mcp__time__get_time");
        let own = "x".repeat(MAX_NAME - "mcp__time__".len());
        assert_eq!(name_of("time", &own).unwrap(), format!("mcp__time__{own}"));
    }

    #[test]
    fn invalid_and_long_tool_names_are_shortened_with_a_hash() {
        assert_eq!(name_of("files", "fs.read").unwrap(), "mcp__files__fs_read_4074bc02");
        assert_ne!(name_of("files", "fs.read"), name_of("files", "fs/read"));
        let long = ["x".repeat(60), "x".repeat(61), "日本".repeat(20)];
        for own in long {
            let name = name_of(&"s".repeat(MAX_SERVER), &own).unwrap();
            assert_eq!(name.len(), MAX_NAME, "{name}");
        }
    }

    #[test]
    fn empty_and_oversized_tool_names_are_rejected() {
        assert_eq!(name_of("time", ""), None);
        assert_eq!(name_of("time", &"x".repeat(MAX_OWN_NAME + 1)), None);
    }
}
