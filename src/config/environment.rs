//! The variables of the environment, and the files that hold secrets in their place.

use std::path::Path;
use std::{env, fs};

use anyhow::{Context as _, bail, ensure};

/// The end of the name of a variable that names the file of a secret.
const OF_A_FILE: &str = "_FILE";

/// Returns an environment variable, unless it is unset or empty.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
pub(super) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns false for the terminals that cannot move the cursor.
pub fn can_edit_lines() -> bool {
    !variable("TERM").is_some_and(|term| ["dumb", "cons25", "emacs"].contains(&&*term))
}

/// Returns the name of the variable that names the file of a secret.
pub(super) fn file_variable(name: &str) -> String {
    format!("{name}{OF_A_FILE}")
}

/// Returns a secret: the value of the variable, or the content of the file that the variable with the
/// suffix `_FILE` names. `None` if neither is set.
pub(super) fn secret(name: &str) -> anyhow::Result<Option<String>> {
    let file_name = file_variable(name);
    let Some(path) = variable(&file_name) else { return Ok(variable(name)) };
    if variable(name).is_some() {
        bail!("{name} and {file_name} are both set: set only one of them");
    }
    let secret = read_secret(Path::new(&path));
    secret.map(Some).with_context(|| format!("{file_name}: the file {path} cannot be used"))
}

/// Returns the secret that an option has, or else that of the file. `given` is the value of the option,
/// which its variable `name` may have set.
pub fn secret_option(given: Option<&str>, name: &str) -> anyhow::Result<Option<String>> {
    match given.filter(|given| !given.is_empty()) {
        // A flag takes precedence over variables.
        Some(given) if variable(name).as_deref() != Some(given) => Ok(Some(given.to_owned())),
        Some(_) | None => secret(name),
    }
}

/// Reads a secret without the line break at its end. The file is read more than once, so a pipe is
/// refused.
pub(super) fn read_secret(path: &Path) -> anyhow::Result<String> {
    ensure!(fs::metadata(path)?.is_file(), "it is not a regular file");
    let mut text = fs::read_to_string(path)?;
    text.truncate(text.trim_end_matches(['\r', '\n']).len());
    ensure!(!text.is_empty(), "it is empty");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_without_the_line_break_at_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            let path = folder.path().join("secret");
            fs::write(&path, text).unwrap();
            read_secret(&path).map_err(|error| error.to_string())
        };
        assert_eq!(read("a b\n").unwrap(), "a b");
        assert_eq!(read("a b\r\n").unwrap(), "a b");
        assert_eq!(read("\n").unwrap_err(), "it is empty");
        assert_eq!(read_secret(folder.path()).unwrap_err().to_string(), "it is not a regular file");
    }
}
