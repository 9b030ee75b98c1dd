//! How far an import is, on a line of its own on the terminal of who waits for it.

use crate::cli::output;
use crate::cli::terminal::{Terminals, one_line};

/// Signs of the bar.
const WIDTH: usize = 30;
/// Letters of a title beside it.
const TITLE: usize = 40;

/// A bar over all passages of an import.
#[derive(Debug)]
pub(super) struct Progress {
    is_shown: bool,
    all: usize,
    /// Those of the courses that are done.
    done: usize,
    title: String,
}

impl Progress {
    /// Nothing is shown where nobody looks.
    pub(super) fn new(all: usize) -> Self {
        Self { is_shown: Terminals::look().words, all, done: 0, title: String::new() }
    }

    /// A course begins.
    pub(super) fn begin(&mut self, title: &str) {
        self.title = one_line(title).chars().take(TITLE).collect();
        self.show(0);
    }

    /// So many of its passages are stored.
    pub(super) fn show(&self, stored: usize) {
        if self.is_shown {
            let bar = bar(self.done + stored, self.all);
            output::ask(&format!("\r\u{1b}[K{bar}  {}", self.title));
        }
    }

    /// A course has ended, and others may print.
    pub(super) fn end(&mut self, stored: usize) {
        self.done += stored;
        if self.is_shown {
            output::ask("\r\u{1b}[K");
        }
    }
}

/// A part of a whole, to be looked at.
fn bar(part: usize, whole: usize) -> String {
    let of = |scale: usize| (part * scale).checked_div(whole).map_or(scale, |it| it.min(scale));
    let full = of(WIDTH);
    format!("[{}{}] {:>3} %", "#".repeat(full), "-".repeat(WIDTH - full), of(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_full_when_all_is_done_and_not_before() {
        assert_eq!(bar(0, 7), format!("[{}]   0 %", "-".repeat(30)));
        assert_eq!(bar(199, 200), format!("[{}-]  99 %", "#".repeat(29)));
        for all in [0, 7] {
            assert_eq!(bar(7, all), format!("[{}] 100 %", "#".repeat(30)));
        }
    }
}
