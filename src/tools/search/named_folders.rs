//! The folders that a glob names. A search enters them although they are hidden or ignored, because
//! the files in them were asked for.
//!
//! `rg` enters a hidden folder only if the glob matches the folder itself: with `.github/**` it finds
//! nothing.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// The folders that a glob names by more than wildcards.
#[derive(Debug)]
pub(super) struct NamedFolders {
    /// The folder that the glob is relative to.
    root: PathBuf,
    /// The beginnings of the glob that end with a name.
    beginnings: GlobSet,
}

impl NamedFolders {
    pub(super) fn of(root: &Path, glob: &str) -> Self {
        let mut beginnings = GlobSetBuilder::new();
        let parts: Vec<&str> = glob.strip_prefix('/').unwrap_or(glob).split('/').collect();
        let ends = (1..parts.len()).filter(|_| !glob.starts_with('!'));
        for end in ends {
            let Some(beginning) = parts.get(..end) else { continue };
            if !beginning.last().is_some_and(|part| is_name(part)) {
                continue;
            }
            // Braces with a slash are divided into invalid globs, and name no folders.
            let glob = beginning.join("/");
            if let Ok(glob) = GlobBuilder::new(&glob).literal_separator(true).build() {
                beginnings.add(glob);
            }
        }
        let beginnings = beginnings.build().unwrap_or_else(|_| GlobSet::empty());
        Self { root: root.to_owned(), beginnings }
    }

    /// Returns whether the glob names this folder.
    pub(super) fn contains(&self, path: &Path) -> bool {
        path.strip_prefix(&self.root).is_ok_and(|path| self.beginnings.is_match(path))
    }
}

/// Returns whether a part of a glob names a folder: it has no wildcards, or it begins with a dot, as
/// the names of hidden folders do.
fn is_name(part: &str) -> bool {
    part.starts_with('.') || !part.is_empty() && !part.contains(['*', '?', '['])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_names_the_folders_before_its_last_part() {
        for (glob, folder, expected) in [
            (".github/**", ".github", true),
            ("/.github/workflows/*.yml", ".github/workflows", true),
            (".github/**/*.yml", ".github/workflows", false),
            ("**/.config/*", "a/b/.config", true),
            ("{.github,target}/**", "target", true),
            (".c*/x", ".cache", true),
            ("*/x", ".cache", false),
            ("**/*.rs", ".cache", false),
            (".github/**", "a/.github", false),
            ("!.github/**", ".github", false),
            (".github", ".github", false),
        ] {
            let named = NamedFolders::of(Path::new("sub"), glob);
            assert_eq!(named.contains(&Path::new("sub").join(folder)), expected, "{glob} {folder}");
            assert!(!named.contains(Path::new(folder)), "{glob} {folder}");
        }
    }
}
