//! What the crash test says: figures on stdout, progress on stderr.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is the place")]

/// A line of data.
pub(crate) fn say(line: &str) {
    println!("{line}");
}

/// A line for the person who waits.
pub(crate) fn note(line: &str) {
    eprintln!("{line}");
}
