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

/// A part of a line, at once.
pub(super) fn write(text: &str) {
    let mut stdout = stdout();
    // Whoever reads no more has read enough, and whatever else is wrong is told with the line.
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// A question to people, on whose line they answer.
pub(super) fn ask(question: &str) {
    let mut stderr = stderr();
    let _ = stderr.write_all(question.as_bytes()).and_then(|()| stderr.flush());
}
