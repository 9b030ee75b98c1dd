//! Hostile documents, and the confinement of the process that reads them. Real processes; no
//! database, so that an unprivileged user can run the tests.
#![cfg(test)]
#![expect(clippy::disallowed_methods, reason = "a test waits for the tasks that it spawns")]

mod builder;
mod confinement;
mod hostile;

use std::path::Path;

use twostep::tools::pdf::Reader;

const PROGRAM: &str = env!("CARGO_BIN_EXE_twostep");

fn reader() -> Reader {
    Reader::with_helper(PROGRAM.into())
}

fn fixture(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/pdf");
    std::fs::read(folder.join(name)).unwrap()
}
