//! Prints the measurements to stdout.
#![expect(clippy::print_stdout, reason = "this is the place")]

/// Prints a line of results.
pub(crate) fn say(line: &str) {
    println!("{line}");
}
