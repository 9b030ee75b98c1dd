//! What is said of a folder's listing.

use crate::words::{count, names};

/// Names that are mentioned.
const MOST_NAMES: usize = 6;

/// How many entries there are, and a few of them. Folders end in a slash.
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
    format!("{place} has {}: {}.", counts.join(" and "), names(&entries, MOST_NAMES))
}
