//! The progress bar of an import, on a terminal line of its own.

use crate::cli::output;
use crate::cli::terminal::{Terminals, one_line};

/// Width of the bar, in characters.
const WIDTH: usize = 30;
/// Maximum number of characters of a title next to the bar.
const TITLE: usize = 40;

/// A progress bar over all passages of an import.
#[derive(Debug)]
pub(super) struct Progress {
    is_shown: bool,
    all: usize,
    /// Passages of the courses that are stored.
    done: usize,
    title: String,
}

impl Progress {
    /// Creates the bar. It is shown only if stderr is a terminal.
    pub(super) fn new(all: usize) -> Self {
        Self { is_shown: Terminals::detect().messages, all, done: 0, title: String::new() }
    }

    /// Starts a course.
    pub(super) fn begin(&mut self, title: &str) {
        self.title = one_line(title).chars().take(TITLE).collect();
        self.show(0);
    }

    /// Shows that this many passages of the course are stored.
    pub(super) fn show(&self, stored: usize) {
        if self.is_shown {
            let bar = bar(self.done + stored, self.all);
            output::replace_line(&format!("{bar}  {}", self.title));
        }
    }

    /// Ends a course and clears the line for other output.
    pub(super) fn end(&mut self, stored: usize) {
        self.done += stored;
        if self.is_shown {
            output::replace_line("");
        }
    }
}

/// Draws a bar for a part of a whole.
fn bar(part: usize, whole: usize) -> String {
    let of = |scale: usize| (part * scale).checked_div(whole).map_or(scale, |it| it.min(scale));
    let full = of(WIDTH);
    format!("[{}{}] {:>3} %", "#".repeat(full), "-".repeat(WIDTH - full), of(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_is_full_only_when_all_passages_are_stored() {
        assert_eq!(bar(0, 7), format!("[{}]   0 %", "-".repeat(30)));
        assert_eq!(bar(199, 200), format!("[{}-]  99 %", "#".repeat(29)));
        for all in [0, 7] {
            assert_eq!(bar(7, all), format!("[{}] 100 %", "#".repeat(30)));
        }
    }
}
