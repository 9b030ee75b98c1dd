//! Patterns for paths in the workspace.

use std::path::{Path, PathBuf};

use super::visible::{has_hidden, is_hidden};
use super::wildcard::Wildcard;
use crate::tools::workspace::ALIAS;

/// Maximum length of a path on Linux, in bytes.
const MAX_PATH: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    One(Wildcard),
    /// `**`: any number of path components, or none.
    Any,
}

/// A pattern for a path, relative to the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathPattern {
    parts: Vec<Part>,
    /// The parts in lowercase.
    lowercase: Vec<Part>,
    /// The paths by which the workspace directory is known.
    roots: Vec<PathBuf>,
}

impl PathPattern {
    /// Parses a pattern such as `src/*.rs` or `docs/**`.
    pub(super) fn new(pattern: &str, workspace: &[PathBuf]) -> Result<Self, &'static str> {
        let roots: Vec<PathBuf> = workspace.iter().cloned().chain([PathBuf::from(ALIAS)]).collect();
        let relative = relative(&[PathBuf::from(ALIAS)], pattern);
        if relative.starts_with('/') {
            return Err("is absolute: paths are relative to the workspace");
        }
        let parts = plain_parts(relative).ok_or("has a `..` component")?;
        let lowercase = parts.iter().map(|part| Part::new(&part.to_lowercase())).collect();
        let parts = parts.into_iter().map(Part::new).collect();
        Ok(Self { parts, lowercase, roots })
    }

    /// Returns `true` if the path certainly matches. `allow` rules use this test.
    pub(super) fn certainly_matches(&self, path: &str) -> bool {
        if path.len() > MAX_PATH || has_hidden(path) || path.trim() != path || path.is_empty() {
            return false;
        }
        let relative = self.relative(path);
        !relative.starts_with('/')
            && plain_parts(relative).is_some_and(|parts| matches_components(&self.parts, &parts))
    }

    /// Returns `true` if the path could match. `ask` and `deny` rules use this test.
    pub(super) fn possibly_matches(&self, path: &str) -> bool {
        if path.len() > MAX_PATH {
            return true;
        }
        let shown: String = path.chars().filter(|c| !is_hidden(*c)).collect();
        let relative = self.relative(shown.trim()).to_lowercase();
        let mut parts: Vec<&str> = Vec::new();
        for part in relative.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(parts.pop()),
                _ => parts.push(part),
            }
        }
        matches_components(&self.lowercase, &parts)
    }

    /// Returns the path relative to the workspace, or unchanged if it is outside.
    fn relative<'a>(&self, path: &'a str) -> &'a str {
        relative(&self.roots, path)
    }
}

impl Part {
    fn new(text: &str) -> Self {
        if text == "**" { Self::Any } else { Self::One(Wildcard::of_word(text)) }
    }
}

/// Returns the path relative to one of these directories, or unchanged if it is in none of them.
/// As in the workspace, the comparison is lexical: `//` and `/./` equal `/`.
fn relative<'a>(roots: &[PathBuf], path: &'a str) -> &'a str {
    let given = Path::new(path);
    let rest = roots.iter().find_map(|root| given.strip_prefix(root).ok());
    match rest.and_then(Path::to_str) {
        Some("") => ".",
        Some(rest) => rest,
        None => path,
    }
}

/// Splits a path into its components. Returns `None` if one of them is `..`.
fn plain_parts(path: &str) -> Option<Vec<&str>> {
    let parts: Vec<&str> =
        path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    (!parts.contains(&"..")).then_some(parts)
}

/// Returns `true` if a pattern matches the whole path.
fn matches_components(pattern: &[Part], path: &[&str]) -> bool {
    // `reached[n]`: the parts so far match the first n components.
    let mut reached = vec![false; path.len() + 1];
    if let Some(first) = reached.first_mut() {
        *first = true;
    }
    for part in pattern {
        reached = match part {
            Part::Any => {
                let first = reached.iter().position(|is| *is).unwrap_or(reached.len());
                (0..reached.len()).map(|n| n >= first).collect()
            }
            Part::One(wildcard) => {
                let steps = reached.iter().zip(path);
                let steps = steps.map(|(is, name)| *is && wildcard.matches(name));
                [false].into_iter().chain(steps).collect()
            }
        };
    }
    reached.last().is_some_and(|is| *is)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> PathPattern {
        PathPattern::new(text, &[PathBuf::from("/srv/files"), PathBuf::from("/data/files")])
            .unwrap()
    }

    fn certainly_matches(text: &str, paths: &[&str]) -> Vec<bool> {
        let pattern = pattern(text);
        paths.iter().map(|path| pattern.certainly_matches(path)).collect()
    }

    #[test]
    fn one_star_matches_within_a_directory_and_two_across_directories() {
        let paths = ["src/a.rs", "src/b/a.rs", "a.rs", "src/a.rsx"];
        assert_eq!(certainly_matches("src/*.rs", &paths), [true, false, false, false]);
        assert_eq!(certainly_matches("src/**/*.rs", &paths), [true, true, false, false]);
        assert_eq!(certainly_matches("**/*.rs", &paths), [true, true, true, false]);
        assert_eq!(certainly_matches("src/**", &paths), [true, true, false, true]);
        assert_eq!(certainly_matches("**", &paths), [true, true, true, true]);
    }

    #[test]
    fn equivalent_notations_of_a_path_match() {
        let paths = ["./docs/a", "docs//a", "/workspace/docs/a", "/srv/files/docs/a", "docs/./a/"];
        assert_eq!(certainly_matches("docs/*", &paths), [true; 5]);
        assert_eq!(certainly_matches("./docs/*", &paths), [true; 5]);
        assert_eq!(certainly_matches("/workspace/docs/*", &paths), [true; 5]);
    }

    #[test]
    fn ambiguous_paths_are_not_allowed() {
        let paths = [
            "docs/../docs/a",
            "/docs/a",
            "/workspaces/docs/a",
            "/srv/filesdocs/a",
            " docs/a",
            "docs/a\n",
            "docs/\u{200b}a",
            "Docs/a",
            "",
        ];
        assert_eq!(certainly_matches("docs/*", &paths), [false; 9]);
    }

    #[test]
    fn every_path_that_could_match_is_found() {
        let pattern = pattern("secrets/**");
        for path in [
            "secrets/a",
            "secrets",
            "./secrets/a/b",
            "x/../secrets/a",
            "../secrets/a",
            "SECRETS/a",
            "sec\u{200b}rets/a",
            " secrets/a ",
            "/workspace/secrets/a",
            "//workspace/secrets/a",
            "/./workspace/./secrets/a",
            "/srv/files//secrets/a",
            "//srv/./files/secrets/a",
            "/data/files/secrets/a",
        ] {
            assert!(pattern.possibly_matches(path), "{path:?}");
        }
        assert!(!pattern.possibly_matches("src/secrets"));
    }

    #[test]
    fn patterns_outside_the_workspace_are_rejected() {
        assert!(PathPattern::new("/etc/*", &[]).is_err());
        assert!(PathPattern::new("../x", &[]).is_err());
    }
}
