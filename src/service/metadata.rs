//! Metadata of agents and environments: strings by their names.

use std::collections::BTreeMap;

/// Maximum number of members.
const MAX_MEMBERS: usize = 16;
/// Maximum length of a name, in characters.
const MAX_NAME: usize = 64;
/// Maximum length of a value, in characters.
const MAX_VALUE: usize = 512;

/// The problem with metadata, if any.
pub(crate) fn metadata_problem(metadata: &BTreeMap<String, String>) -> Option<String> {
    if metadata.len() > MAX_MEMBERS {
        return Some(format!("has {} members; at most {MAX_MEMBERS} are allowed", metadata.len()));
    }
    metadata.iter().find_map(|(name, value)| {
        if name.chars().count() > MAX_NAME {
            return Some(format!("has a name that is longer than {MAX_NAME} characters"));
        }
        let is_long = value.chars().count() > MAX_VALUE;
        is_long.then(|| format!("has {name:?}, which is longer than {MAX_VALUE} characters"))
    })
}
