//! Courses as plain text: `Course Title:`, `Course Link:` and `Course Instructor:`, then for each
//! lesson `Lesson 1: its title`, an optional `Lesson Link:`, and the text.

use super::parser::{CourseParser, field};
use super::{BadCourse, Course};

pub(super) fn read(text: &str) -> Result<Course, BadCourse> {
    let mut parser = CourseParser::default();
    for (line, text) in (1..).zip(text.lines()) {
        match lesson(text) {
            Some((number, title)) => parser.begin(line, Some(number), title)?,
            None => parser.add_line(line, text)?,
        }
    }
    parser.finish()
}

/// Returns `true` if the text begins as a plain-text course.
pub(super) fn is_plain(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty());
    first.is_some_and(|line| field(line, "Course Title").is_some())
}

/// Parses the number and the title of a line that starts a lesson.
pub(super) fn lesson(line: &str) -> Option<(&str, &str)> {
    let (head, title) = line.trim().split_once(':')?;
    let (word, number) = head.trim_end().split_once(char::is_whitespace)?;
    let number = number.trim_start();
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (word.eq_ignore_ascii_case("lesson") && is_number).then_some((number, title))
}
