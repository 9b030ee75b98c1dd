//! The output of the crash test: results on stdout, progress on stderr.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the only module that prints")]

/// Prints a line of results.
pub(crate) fn say(line: &str) {
    println!("{line}");
}

/// Prints a line of progress.
pub(crate) fn note(line: &str) {
    eprintln!("{line}");
}
