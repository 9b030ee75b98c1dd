//! The lines of a result, in the form that ripgrep gives them.

use std::io;
use std::path::Path;

use grep_matcher::Matcher as _;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkFinish, SinkMatch};

use super::{Input, Mode};

/// Bytes of a line that are shown.
const MAX_LINE: usize = 500;
/// Lines around a match that are shown at most.
const MAX_CONTEXT: usize = 100;

/// What the lines look like.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    mode: Mode,
    multiline: bool,
    pub(super) numbers: bool,
    pub(super) before: usize,
    pub(super) after: usize,
    /// Lines that are of any use: one more than fit, so that it is known that there are more.
    room: usize,
}

impl Shape {
    pub(super) fn of(input: &Input) -> Self {
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

/// What was found in a file.
#[derive(Debug)]
pub(super) enum Hit {
    /// Lines of the result.
    Lines(Vec<String>),
    /// It was not searched to the end.
    Unsearched,
}

/// Gathers what is found in one file.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    matcher: &'a RegexMatcher,
    shape: Shape,
    path: &'a Path,
    lines: Vec<String>,
    matches: u64,
    is_binary: bool,
}

impl<'a> Lines<'a> {
    pub(super) fn new(matcher: &'a RegexMatcher, shape: Shape, path: &'a Path) -> Self {
        Self { matcher, shape, path, lines: Vec::new(), matches: 0, is_binary: false }
    }

    /// What was found; nothing in a binary file, whatever it was.
    pub(super) fn hit(self) -> Option<Hit> {
        if self.is_binary || self.matches == 0 {
            return None;
        }
        let path = self.path.display();
        Some(Hit::Lines(match self.shape.mode {
            Mode::Content => self.lines,
            Mode::FilesWithMatches => vec![path.to_string()],
            Mode::Count => vec![format!("{path}:{}", self.matches)],
        }))
    }

    fn has_room(&self) -> bool {
        self.lines.len() < self.shape.room
    }

    /// A line of the file; what stands between its parts tells matches from lines around them.
    fn push(&mut self, number: Option<u64>, line: &[u8], between: char) {
        let path = self.path.display();
        let text = shown(line);
        self.lines.push(match number {
            Some(number) => format!("{path}{between}{number}{between}{text}"),
            None => format!("{path}{between}{text}"),
        });
    }

    /// As `rg --count`: lines, or matches where one may span lines.
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

impl Sink for Lines<'_> {
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
        self.lines.push("--".to_owned());
        Ok(self.has_room())
    }

    fn finish(&mut self, _searcher: &Searcher, end: &SinkFinish) -> io::Result<()> {
        self.is_binary = end.binary_byte_offset().is_some();
        Ok(())
    }
}

/// A line as text, and not without end.
fn shown(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    if line.len() <= MAX_LINE {
        return String::from_utf8_lossy(line).into_owned();
    }
    let (shown, hidden) = line.split_at(MAX_LINE);
    // The cut may fall inside a character, which then is left out.
    let whole = match std::str::from_utf8(shown) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => MAX_LINE,
    };
    let hidden = hidden.len() + MAX_LINE - whole;
    let shown = String::from_utf8_lossy(shown.get(..whole).unwrap_or(shown)).into_owned();
    format!("{shown} [{hidden} more bytes]")
}
