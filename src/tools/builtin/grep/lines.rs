//! Result lines in the format of ripgrep.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use grep_matcher::Matcher as _;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkFinish, SinkMatch};

use super::search::MAX_TEXT;
use super::{GrepInput, Mode};
use crate::tools::builtin::visible;

/// The maximum number of bytes shown of a line.
const MAX_LINE: usize = 500;
/// The maximum number of context lines before and after a match.
const MAX_CONTEXT: usize = 100;

/// The output format of a search.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    mode: Mode,
    multiline: bool,
    pub(super) numbers: bool,
    pub(super) before: usize,
    pub(super) after: usize,
    /// The number of lines to collect: one more than the limit, to detect that there are more.
    room: usize,
}

impl Shape {
    pub(super) fn of(input: &GrepInput) -> Self {
        let is_content = input.output_mode == Mode::Content;
        let around = |lines: usize| {
            if is_content { lines.max(input.around).min(MAX_CONTEXT) } else { 0 }
        };
        Self {
            mode: input.output_mode,
            multiline: input.multiline,
            numbers: is_content && input.numbers,
            before: around(input.before),
            after: around(input.after),
            room: input.head_limit.saturating_add(1),
        }
    }
}

/// The result of searching one file.
#[derive(Debug)]
pub(super) enum Hit {
    /// Result lines, each with its line end.
    Lines(String),
    /// The file could not be searched completely.
    Unsearched,
}

/// Collects the matches in one file.
#[derive(Debug)]
pub(super) struct Listing<'a> {
    matcher: &'a RegexMatcher,
    shape: Shape,
    path: String,
    text: String,
    lines: usize,
    matches: u64,
    is_binary: bool,
}

impl<'a> Listing<'a> {
    pub(super) fn new(matcher: &'a RegexMatcher, shape: Shape, path: &Path) -> Self {
        let path = visible(&path.to_string_lossy());
        Self { matcher, shape, path, text: String::new(), lines: 0, matches: 0, is_binary: false }
    }

    /// Returns the result, or `None` for a file without matches or a binary file.
    pub(super) fn hit(self) -> Option<Hit> {
        if self.is_binary || self.matches == 0 {
            return None;
        }
        Some(Hit::Lines(match self.shape.mode {
            Mode::Content => self.text,
            Mode::FilesWithMatches => format!("{}\n", self.path),
            Mode::Count => format!("{}:{}\n", self.path, self.matches),
        }))
    }

    /// Returns whether more lines are needed.
    fn has_room(&self) -> bool {
        self.lines < self.shape.room && self.text.len() <= MAX_TEXT
    }

    /// Appends a line of the file. The separator distinguishes matches (`:`) from context lines
    /// (`-`).
    fn push(&mut self, number: Option<u64>, line: &[u8], between: char) {
        self.text.push_str(&self.path);
        self.text.push(between);
        if let Some(number) = number {
            let _ = write!(self.text, "{number}{between}");
        }
        show(line, &mut self.text);
        self.end_line();
    }

    fn end_line(&mut self) {
        self.text.push('\n');
        self.lines += 1;
    }

    /// Counts as `rg --count` does: matching lines, or matches if a match may span lines.
    fn count(&mut self, found: &SinkMatch<'_>) -> io::Result<()> {
        if !self.shape.multiline {
            self.matches += 1;
            return Ok(());
        }
        let matches = &mut self.matches;
        self.matcher
            .find_iter(found.bytes(), |_| {
                *matches += 1;
                true
            })
            .map_err(io::Error::other)
    }
}

impl Sink for Listing<'_> {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        match self.shape.mode {
            Mode::FilesWithMatches => {
                self.matches = 1;
                Ok(false)
            }
            Mode::Count => self.count(found).map(|()| true),
            Mode::Content => {
                self.matches = 1;
                for (number, line) in (0..).zip(found.lines()) {
                    if !self.has_room() {
                        break;
                    }
                    self.push(found.line_number().map(|first| first + number), line, ':');
                }
                Ok(self.has_room())
            }
        }
    }

    fn context(&mut self, _searcher: &Searcher, line: &SinkContext<'_>) -> io::Result<bool> {
        self.push(line.line_number(), line.bytes(), '-');
        Ok(self.has_room())
    }

    fn context_break(&mut self, _searcher: &Searcher) -> io::Result<bool> {
        self.text.push_str("--");
        self.end_line();
        Ok(self.has_room())
    }

    fn finish(&mut self, _searcher: &Searcher, end: &SinkFinish) -> io::Result<()> {
        self.is_binary = end.binary_byte_offset().is_some();
        Ok(())
    }
}

/// Appends a line as text, truncated to `MAX_LINE`.
fn show(line: &[u8], text: &mut String) {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let (start, rest) = line.split_at(line.len().min(MAX_LINE));
    // An incomplete character at the end is omitted.
    let whole = match std::str::from_utf8(start) {
        Err(error) if error.error_len().is_none() && !rest.is_empty() => error.valid_up_to(),
        _ => start.len(),
    };
    text.push_str(&String::from_utf8_lossy(start.get(..whole).unwrap_or(start)));
    if !rest.is_empty() {
        let _ = write!(text, " [{} more bytes]", line.len() - whole);
    }
}
