//! Output of commands: data on stdout, messages on stderr.
//!
//! Arguments, settings and replies can contain characters that a terminal interprets. Every function
//! escapes them, except [`print_data`], whose reader is a program, and [`write_styled`].

use std::io::{ErrorKind, IsTerminal as _, Write as _, stderr, stdout};

use super::terminal::{safe, safe_json};

/// The sequences that begin and end faint text.
const FAINT: (&str, &str) = ("\u{1b}[2m", "\u{1b}[0m");
/// Moves to the start of the line and clears it.
const CLEAR_LINE: &str = "\r\u{1b}[K";

/// Prints a line of text.
pub(super) fn print_line(line: &str) {
    print_data(&safe(line));
}

/// Prints JSON. It stays unchanged for programs, and keeps its value on a terminal.
pub(super) fn print_json(json: &str) {
    if stdout().is_terminal() {
        print_data(&safe_json(json));
    } else {
        print_data(json);
    }
}

/// Prints unchanged data, and a line break. A closed stdout, as with `head`, is not an error.
pub(super) fn print_data(data: &str) {
    match writeln!(stdout(), "{data}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            print_error(&format!("twostep: stdout cannot be written: {error}"));
        }
        Ok(()) | Err(_) => {}
    }
}

/// Prints a message on stderr.
pub(super) fn print_error(line: &str) {
    write_message(&format!("{}\n", safe(line)));
}

/// Prints a message on stderr, in faint text.
pub(super) fn print_faint(line: &str) {
    let (begin, end) = FAINT;
    write_message(&format!("{begin}{}{end}\n", safe(line)));
}

/// Prints a part of a line without buffering.
pub(super) fn write(text: &str) {
    let mut stdout = stdout();
    // A closed stdout is not an error. Other errors are reported at the end of the line.
    let _ = stdout.write_all(safe(text).as_bytes()).and_then(|()| stdout.flush());
}

/// Prints a prompt without a line break.
pub(super) fn print_prompt(question: &str) {
    write_message(&safe(question));
}

/// Replaces the current line of stderr.
pub(super) fn replace_line(text: &str) {
    write_message(&format!("{CLEAR_LINE}{}", safe(text)));
}

/// Replaces the current line of stderr by faint text.
pub(super) fn replace_faint(text: &str) {
    let (begin, end) = FAINT;
    write_message(&format!("{CLEAR_LINE}{begin}{}{end}", safe(text)));
}

/// Prints text with styles, which was escaped before the styles were added.
pub(super) fn write_styled(text: &str) {
    let mut stdout = stdout();
    // A closed stdout is not an error.
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

fn write_message(text: &str) {
    let mut stderr = stderr();
    // There is no other channel for an error of stderr.
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}
