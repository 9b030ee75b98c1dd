//! What commands say: data on stdout, complaints on stderr.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is the place")]

/// A line of data.
pub(super) fn say(line: &str) {
    println!("{line}");
}

/// A line for people whose command failed.
pub(super) fn complain(line: &str) {
    eprintln!("{line}");
}
