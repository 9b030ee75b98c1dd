//! Patterns of paths in the workspace.

use std::path::{Path, PathBuf};

use super::visible::{has_hidden, is_hidden};
use super::wildcard::Wildcard;
use crate::tools::workspace::ALIAS;

/// The longest path that the system takes, in bytes.
const MAX_PATH: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    One(Wildcard),
    /// `**`: any folders, or none.
    Any,
}

/// A pattern of a path, relative to the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathPattern {
    parts: Vec<Part>,
    /// The same in small letters.
    small: Vec<Part>,
    /// The names of the workspace's folder.
    roots: Vec<PathBuf>,
}

impl PathPattern {
    /// Reads `src/*.rs`, `docs/**`.
    pub(super) fn new(pattern: &str, workspace: &[PathBuf]) -> Result<Self, &'static str> {
        let roots: Vec<PathBuf> = workspace.iter().cloned().chain([PathBuf::from(ALIAS)]).collect();
        let relative = relative(&[PathBuf::from(ALIAS)], pattern);
        if relative.starts_with('/') {
            return Err("is absolute: paths are relative to the workspace");
        }
        let parts = plain_parts(relative).ok_or("has `..`: it would lead out of itself")?;
        let small = parts.iter().map(|part| Part::new(&part.to_lowercase())).collect();
        let parts = parts.into_iter().map(Part::new).collect();
        Ok(Self { parts, small, roots })
    }

    /// Whether a path is what the pattern says, beyond doubt.
    pub(super) fn surely(&self, path: &str) -> bool {
        if path.len() > MAX_PATH || has_hidden(path) || path.trim() != path || path.is_empty() {
            return false;
        }
        let relative = self.relative(path);
        !relative.starts_with('/')
            && plain_parts(relative).is_some_and(|parts| describes(&self.parts, &parts))
    }

    /// Whether a path may be what the pattern says.
    pub(super) fn maybe(&self, path: &str) -> bool {
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
        describes(&self.small, &parts)
    }

    /// What is left of a path without the workspace's own.
    fn relative<'a>(&self, path: &'a str) -> &'a str {
        relative(&self.roots, path)
    }
}

impl Part {
    fn new(text: &str) -> Self {
        if text == "**" { Self::Any } else { Self::One(Wildcard::of_word(text)) }
    }
}

/// The rest of a path beneath one of these folders, told by names as the workspace does: `//` and
/// `/./` are `/`.
fn relative<'a>(roots: &[PathBuf], path: &'a str) -> &'a str {
    let given = Path::new(path);
    let rest = roots.iter().find_map(|root| given.strip_prefix(root).ok());
    match rest.and_then(Path::to_str) {
        Some("") => ".",
        Some(rest) => rest,
        None => path,
    }
}

/// The names of a path that climbs nowhere.
fn plain_parts(path: &str) -> Option<Vec<&str>> {
    let parts: Vec<&str> =
        path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    (!parts.contains(&"..")).then_some(parts)
}

/// Whether a pattern describes the whole of a path.
fn describes(pattern: &[Part], path: &[&str]) -> bool {
    // `reached[n]`: the pattern so far describes the first n names.
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

    fn surely(text: &str, paths: &[&str]) -> Vec<bool> {
        let pattern = pattern(text);
        paths.iter().map(|path| pattern.surely(path)).collect()
    }

    #[test]
    fn one_star_stays_in_its_folder_and_two_do_not() {
        let paths = ["src/a.rs", "src/b/a.rs", "a.rs", "src/a.rsx"];
        assert_eq!(surely("src/*.rs", &paths), [true, false, false, false]);
        assert_eq!(surely("src/**/*.rs", &paths), [true, true, false, false]);
        assert_eq!(surely("**/*.rs", &paths), [true, true, true, false]);
        assert_eq!(surely("src/**", &paths), [true, true, false, true]);
        assert_eq!(surely("**", &paths), [true, true, true, true]);
    }

    #[test]
    fn a_path_is_the_same_however_it_is_written() {
        let paths = ["./docs/a", "docs//a", "/workspace/docs/a", "/srv/files/docs/a", "docs/./a/"];
        assert_eq!(surely("docs/*", &paths), [true; 5]);
        assert_eq!(surely("./docs/*", &paths), [true; 5]);
        assert_eq!(surely("/workspace/docs/*", &paths), [true; 5]);
    }

    #[test]
    fn a_path_that_is_in_doubt_is_not_allowed() {
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
        assert_eq!(surely("docs/*", &paths), [false; 9]);
    }

    #[test]
    fn a_path_that_may_be_meant_is_found() {
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
            assert!(pattern.maybe(path), "{path:?}");
        }
        assert!(!pattern.maybe("src/secrets"));
    }

    #[test]
    fn a_pattern_stays_in_the_workspace() {
        assert!(PathPattern::new("/etc/*", &[]).is_err());
        assert!(PathPattern::new("../x", &[]).is_err());
    }
}
