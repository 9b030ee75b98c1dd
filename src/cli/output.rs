//! Output of commands: data on stdout, messages on stderr.

use std::io::{ErrorKind, Write as _, stderr, stdout};

/// Prints a line of data. A closed stdout, as with `head`, is not an error.
pub(super) fn print_line(line: &str) {
    match writeln!(stdout(), "{line}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            print_error(&format!("twostep: stdout cannot be written: {error}"));
        }
        Ok(()) | Err(_) => {}
    }
}

/// Prints a message on stderr.
pub(super) fn print_error(line: &str) {
    // There is no other channel for an error of stderr.
    let _ = writeln!(stderr(), "{line}");
}

/// Prints a part of a line without buffering.
pub(super) fn write(text: &str) {
    let mut stdout = stdout();
    // A closed stdout is not an error. Other errors are reported at the end of the line.
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// Prints a prompt without a line break.
pub(super) fn print_prompt(question: &str) {
    let mut stderr = stderr();
    let _ = stderr.write_all(question.as_bytes()).and_then(|()| stderr.flush());
}
