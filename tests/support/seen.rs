//! What is heard of the services of tests: logs, errors, figures, spans. `scripts/search-secrets`
//! searches it when the tests are over.

use std::env;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;

/// A file of this process in the folder that is searched, if one is, to add to.
pub(crate) fn file(name: &str) -> Option<File> {
    let folder = PathBuf::from(env::var_os("TWOSTEP_TEST_SEEN")?);
    let path = folder.join(format!("{}.{name}", std::process::id()));
    Some(OpenOptions::new().create(true).append(true).open(path).unwrap())
}

/// Keeps an answer.
pub(crate) fn answer(text: &str) {
    if let Some(mut file) = file("answers") {
        // One write, so that the answers of two tests never mix.
        file.write_all(format!("{text}\n").as_bytes()).unwrap();
    }
}
