//! The output of the services of tests: logs, error responses, metrics, spans.
//! `scripts/search-secrets` searches it for secrets after the tests.

use std::env;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;

/// Opens a file of this process, to append to, in the folder that is searched. `None` if the output
/// is not searched.
pub(crate) fn file(name: &str) -> Option<File> {
    let folder = PathBuf::from(env::var_os("TWOSTEP_TEST_SEEN")?);
    let path = folder.join(format!("{}.{name}", std::process::id()));
    Some(OpenOptions::new().create(true).append(true).open(path).unwrap())
}

/// Keeps the text of a response.
pub(crate) fn keep_response(text: &str) {
    if let Some(mut file) = file("answers") {
        // One write, so that the responses of two tests do not mix.
        file.write_all(format!("{text}\n").as_bytes()).unwrap();
    }
}
