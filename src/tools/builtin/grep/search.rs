//! A search in files by several threads, with results in the order of the paths.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, MmapChoice, SearcherBuilder};

use super::lines::{Hit, Listing, Shape};
use super::{GrepInput, Mode};
use crate::tools::error::ToolError;
use crate::tools::search::{Filter, SearchOrigin, THREADS, Watch, walk};
use crate::tools::workspace::{Workspace, open_regular};

/// The number of files that are searched between two checks for a full result. Limits wasted time
/// and memory.
const CHUNK: usize = 256;
/// The maximum size of a result, in bytes. It is less than the limit at which the registry
/// truncates.
pub(super) const MAX_TEXT: usize = 90 * 1024;
/// The memory limits of a compiled pattern and of the lazy DFA of one thread, in bytes.
const MAX_REGEX: usize = 8 * 1024 * 1024;
const MAX_DFA: usize = 16 * 1024 * 1024;
/// The memory limit of a line, and of a file in multiline mode, in bytes.
const MAX_HEAP: usize = 32 * 1024 * 1024;

/// Searches, and formats the result.
pub(super) fn search(
    workspace: &Workspace,
    input: &GrepInput,
    watch: &Watch,
) -> Result<String, ToolError> {
    let mut result = ResultText::new(input);
    find(workspace, input, watch, |hit| result.take(hit))?;
    Ok(result.text())
}

/// Searches files in the order of their paths until `take` returns false.
pub(super) fn find(
    workspace: &Workspace,
    input: &GrepInput,
    watch: &Watch,
    mut take: impl FnMut(Hit) -> bool,
) -> Result<(), ToolError> {
    let origin = SearchOrigin::new(workspace, &input.path)?;
    let plan = Plan::new(input)?;
    let filter =
        Filter::new(workspace, origin.folder(), input.glob.as_deref(), input.kind.as_deref())?;
    let mut files = if origin.is_folder {
        walk(&origin, &filter, watch, |file| Some(file.path))?
    } else {
        vec![origin.start.clone()]
    };
    files.sort_unstable_by(|one, other| bytes(one).cmp(bytes(other)));
    for chunk in files.chunks(CHUNK) {
        let hits = search_chunk(&origin, chunk, &plan, watch)?;
        if !hits.into_iter().all(&mut take) {
            break;
        }
    }
    Ok(())
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// The matcher and the settings for all files of a search.
#[derive(Debug)]
struct Plan {
    matcher: RegexMatcher,
    searcher: SearcherBuilder,
    shape: Shape,
}

impl Plan {
    fn new(input: &GrepInput) -> Result<Self, ToolError> {
        // With CRLF as line end, `$` matches before it, and a pattern cannot contain a carriage
        // return.
        let (matcher, line_end) = if let Ok(matcher) = matcher(input, true) {
            (matcher, LineTerminator::crlf())
        } else {
            let matcher = matcher(input, false).map_err(|error| {
                ToolError::Invalid(format!("the pattern is not a regular expression: {error}"))
            })?;
            (matcher, LineTerminator::default())
        };
        let shape = Shape::of(input);
        let mut searcher = SearcherBuilder::new();
        searcher
            .line_terminator(line_end)
            .multi_line(input.multiline)
            .line_number(shape.numbers)
            .before_context(shape.before)
            .after_context(shape.after)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(MAX_HEAP))
            .memory_map(MmapChoice::never());
        Ok(Self { matcher, searcher, shape })
    }
}

/// Compiles the pattern. If `crlf` is set, lines end with CRLF or LF.
fn matcher(input: &GrepInput, crlf: bool) -> Result<RegexMatcher, grep_regex::Error> {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .multi_line(true)
        .case_insensitive(input.ignore_case)
        .dot_matches_new_line(input.multiline)
        .size_limit(MAX_REGEX)
        .dfa_size_limit(MAX_DFA)
        .line_terminator(Some(b'\n'));
    if crlf {
        builder.crlf(true);
    }
    if input.multiline {
        // A match may contain line ends.
        builder.line_terminator(None);
    }
    builder.build(&input.pattern)
}

/// Searches a list of files. Results are in the order of the list.
fn search_chunk(
    origin: &SearchOrigin,
    files: &[PathBuf],
    plan: &Plan,
    watch: &Watch,
) -> Result<Vec<Hit>, ToolError> {
    let next = AtomicUsize::new(0);
    let work = || {
        // Buffers and caches belong to one thread.
        let (matcher, mut searcher) = (plan.matcher.clone(), plan.searcher.build());
        let mut hits = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = files.get(index) else { return Ok(hits) };
            watch.check()?;
            // Missing and unreadable files are skipped, as in ripgrep.
            let Ok(Some(file)) = open_regular(&origin.root, path) else { continue };
            let file = Watched { file: file.into_std(), watch };
            let mut lines = Listing::new(&matcher, plan.shape, path);
            let searched = searcher.search_reader(&matcher, file, &mut lines);
            let hit = searched.map_or(Some(Hit::Unsearched), |()| lines.hit());
            hits.extend(hit.map(|hit| (index, hit)));
        }
    };
    let mut hits = thread::scope(|scope| {
        let helpers: Vec<_> = (1..THREADS.min(files.len())).map(|_| scope.spawn(work)).collect();
        let mut hits = work()?;
        for helper in helpers {
            let more = helper.join();
            hits.append(
                &mut more.map_err(|_| ToolError::Failed("the search stopped".to_owned()))??,
            );
        }
        Ok(hits)
    })?;
    watch.check()?;
    hits.sort_unstable_by_key(|(index, _)| *index);
    Ok(hits.into_iter().map(|(_, hit)| hit).collect())
}

/// A reader that fails when the search is cancelled.
#[derive(Debug)]
struct Watched<'a> {
    file: File,
    watch: &'a Watch,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.watch.is_cancelled() {
            return Err(io::Error::other("the search was cancelled"));
        }
        self.file.read(buffer)
    }
}

/// The text of a result up to its limit.
#[derive(Debug)]
struct ResultText {
    text: String,
    lines: usize,
    max_lines: usize,
    /// If set, a separator line is written between matches of different files.
    is_apart: bool,
    is_full: bool,
    unsearched: usize,
    nothing: &'static str,
}

impl ResultText {
    fn new(input: &GrepInput) -> Self {
        let shape = Shape::of(input);
        Self {
            text: String::new(),
            lines: 0,
            max_lines: input.head_limit,
            is_apart: shape.before + shape.after > 0,
            is_full: false,
            unsearched: 0,
            nothing: match input.output_mode {
                Mode::Content | Mode::Count => "No matches.",
                Mode::FilesWithMatches => "No files match.",
            },
        }
    }

    /// Adds the result of the next file. Returns whether there is room for more.
    fn take(&mut self, hit: Hit) -> bool {
        let text = match hit {
            Hit::Lines(text) => text,
            Hit::Unsearched => {
                self.unsearched += 1;
                return true;
            }
        };
        if self.is_apart && self.lines > 0 {
            self.line("--\n");
        }
        for line in text.split_inclusive('\n') {
            self.line(line);
        }
        !self.is_full
    }

    fn line(&mut self, line: &str) {
        self.is_full |= self.lines == self.max_lines || self.text.len() + line.len() > MAX_TEXT;
        if !self.is_full {
            self.lines += 1;
            self.text.push_str(line);
        }
    }

    fn text(mut self) -> String {
        if self.lines == 0 {
            self.text.push_str(self.nothing);
            self.text.push('\n');
        }
        if self.is_full {
            let _ = writeln!(
                self.text,
                "[stopped after {} lines, there are more; narrow the search or raise head_limit]",
                self.lines
            );
        }
        if self.unsearched > 0 {
            let _ = writeln!(self.text, "[files that could not be searched: {}]", self.unsearched);
        }
        self.text
    }
}
