//! Paths that no tool may write to, because programs outside of the sandbox execute or obey them.

use std::ffi::OsStr;
use std::path::Path;

use crate::tools::error::ToolError;

/// Names that are read-only at any depth and in any letter case, with everything under them: files
/// that git, editors, shells and agents execute or obey when a user only opens the folder. A `.git`
/// may also be a file that names another folder.
///
/// The sandbox protects these names at the top level of the workspace only. Commands in the sandbox
/// can write to git repositories in subfolders.
///
/// `.env` is not protected: it is an ordinary file of a project, and the service does not read it.
pub const PROTECTED: [&str; 20] = [
    GIT,
    ".gitconfig",
    ".gitmodules",
    ".mcp.json",
    ".claude",
    ".vscode",
    ".idea",
    ".twostep",
    ".envrc",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".inputrc",
    ".ripgreprc",
];

const GIT: &str = ".git";

/// Fails for a protected path.
pub(super) fn refuse(path: &str, relative: &Path) -> Result<(), ToolError> {
    let is_protected = |name: &OsStr| {
        let name = normalized(&name.to_string_lossy());
        PROTECTED.contains(&name.as_str())
    };
    if relative.iter().any(is_protected) {
        return Err(ToolError::Failed(format!("{path} is protected and cannot be written")));
    }
    Ok(())
}

/// Normalizes a name as the most permissive file system compares it: without letter case, without
/// invisible characters, without trailing dots and spaces, and with the short name of the git
/// folder resolved.
fn normalized(name: &str) -> String {
    let is_invisible = |c: char| {
        matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let folded: String = name
        .chars()
        .filter(|c| !is_invisible(*c))
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .collect();
    let plain = folded.trim_end_matches(['.', ' ']);
    if plain == "git~1" { GIT.to_owned() } else { plain.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(path: &str) -> bool {
        refuse(path, Path::new(path)).is_err()
    }

    #[test]
    fn protected_names_are_refused_at_any_depth_in_any_spelling() {
        for path in PROTECTED {
            assert!(is_refused(path), "{path}");
            assert!(is_refused(&format!("a/b/{path}")), "{path}");
            assert!(is_refused(&format!("{path}/below")), "{path}");
            assert!(is_refused(&path.to_uppercase()), "{path}");
        }
        for path in [".git", ".git/HEAD", "sub/.GIT", ".g\u{200c}it/x", "git~1/x", ".git. ./x"] {
            assert!(is_refused(path), "{path}");
        }
        for entry in ["hooks", "config", "config.worktree", "info/attributes", "modules"] {
            for path in [format!(".git/{entry}"), format!("a/b/.GIT/{entry}/below")] {
                assert!(is_refused(&path), "{path}");
            }
        }
    }

    #[test]
    fn ordinary_files_are_not_refused() {
        for path in ["git", ".github/ci.yml", ".gitignore", ".env", "hooks/x", "a.git/x", "vscode"]
        {
            assert!(!is_refused(path), "{path}");
        }
    }
}
