//! Courses as Markdown: the first heading is the title, each further heading of the first two
//! levels starts a lesson. The fields of plain-text courses are supported too.

use super::parser::CourseParser;
use super::text::lesson;
use super::{BadCourse, Course};

pub(super) fn read(text: &str) -> Result<Course, BadCourse> {
    let mut parser = CourseParser::default();
    let mut fence = None;
    for (line, text) in (1..).zip(text.lines()) {
        fence = match (fence, fence_of(text)) {
            (None, begins) => begins,
            (Some(open), Some(closes)) if open == closes => None,
            (open, _) => open,
        };
        match heading(text).filter(|_| fence.is_none()) {
            Some((1, title)) if !parser.has_title() => parser.name(line, unlinked(title).0)?,
            Some((1 | 2, title)) => begin(&mut parser, line, title)?,
            _ => parser.add_line(line, text)?,
        }
    }
    parser.finish()
}

fn begin(parser: &mut CourseParser, line: usize, heading: &str) -> Result<(), BadCourse> {
    let (heading, link) = unlinked(heading);
    match lesson(heading) {
        Some((number, title)) => parser.begin(line, Some(number), title)?,
        None => parser.begin(line, None, heading)?,
    }
    link.map_or(Ok(()), |link| parser.link_lesson(line, link))
}

/// Returns the level and the text of a heading.
fn heading(line: &str) -> Option<(usize, &str)> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    let is_heading = (1..=6).contains(&level) && text.starts_with([' ', '\t']);
    is_heading.then(|| (level, text.trim().trim_end_matches('#').trim_end()))
}

/// Returns the marker that starts or ends a code block.
fn fence_of(line: &str) -> Option<&'static str> {
    ["```", "~~~"].into_iter().find(|mark| line.trim_start().starts_with(mark))
}

/// Splits a heading that is a single link, `[title](link)`, into its title and its link.
fn unlinked(heading: &str) -> (&str, Option<&str>) {
    let inner = heading.strip_prefix('[').and_then(|rest| rest.strip_suffix(')'));
    match inner.and_then(|inner| inner.split_once("](")) {
        Some((title, link)) => (title, Some(link)),
        None => (heading, None),
    }
}
