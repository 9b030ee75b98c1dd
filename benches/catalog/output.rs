//! What was measured, on stdout.
#![expect(clippy::print_stdout, reason = "this is the place")]

/// A line of data.
pub(crate) fn say(line: &str) {
    println!("{line}");
}
