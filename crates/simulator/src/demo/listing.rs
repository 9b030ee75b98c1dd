//! The description of a folder's listing.

use crate::phrases::{count, names};

/// Maximum number of names.
const MAX_NAMES: usize = 6;

/// Counts the entries and names a few of them. The names of folders end with a slash.
pub(super) fn folder(path: Option<&str>, text: &str) -> String {
    let place = path.map_or("The folder".to_owned(), |path| format!("`{path}`"));
    let entries: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if entries.is_empty() {
        return format!("{place} is empty.");
    }
    let folders = entries.iter().filter(|entry| entry.ends_with('/')).count();
    let files = entries.len() - folders;
    let mut counts = Vec::new();
    if files > 0 {
        counts.push(count(files, "file", "files"));
    }
    if folders > 0 {
        counts.push(count(folders, "folder", "folders"));
    }
    let entries: Vec<String> = entries.into_iter().map(str::to_owned).collect();
    format!("{place} has {}: {}.", counts.join(" and "), names(&entries, MAX_NAMES))
}
