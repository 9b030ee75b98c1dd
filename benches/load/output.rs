//! Prints the table to stdout and progress to stderr.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is the place")]

/// Prints a line of results.
pub(crate) fn say(line: &str) {
    println!("{line}");
}

/// Prints a progress message.
pub(crate) fn note(line: &str) {
    eprintln!("{line}");
}
