//! Documents that are made to harm whoever reads them, and what the process that reads them has.
//! Real processes; no database, so that a plain user can run it.
#![cfg(test)]
#![expect(clippy::disallowed_methods, reason = "a test waits for what it spawns")]

mod confined;
mod hostile;
mod written;

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
