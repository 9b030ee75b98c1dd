//! What commands say: data on stdout, complaints on stderr.

use std::io::{ErrorKind, Write as _, stderr, stdout};

/// A line of data. Whoever closes stdout, as `head` does, has read enough: that is no failure.
pub(super) fn say(line: &str) {
    match writeln!(stdout(), "{line}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            complain(&format!("twostep: stdout cannot be written: {error}"));
        }
        Ok(()) | Err(_) => {}
    }
}

/// A line for people whose command failed.
pub(super) fn complain(line: &str) {
    // There is nobody else to tell.
    let _ = writeln!(stderr(), "{line}");
}
