//! Courses: documents that agents search, and the parser for their text forms.

mod likeness;
mod markdown;
mod parser;
mod passages;
#[cfg(test)]
mod tests;
mod text;

use serde::Serialize;

pub use likeness::most_like;

/// Maximum number of lessons of a course.
const MAX_LESSONS: usize = 1000;
/// Maximum number of passages of a course: about sixteen million characters.
const MAX_PASSAGES: usize = 20_000;

/// A course with its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Course {
    /// The title.
    pub title: String,
    /// The address.
    pub link: Option<String>,
    /// The instructor's name.
    pub instructor: Option<String>,
    /// The text before the first lesson.
    pub introduction: String,
    /// The lessons, in their order.
    pub lessons: Vec<Lesson>,
}

/// A lesson with its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lesson {
    /// The number, unique in the course.
    pub number: i32,
    /// The title.
    pub title: String,
    /// The address.
    pub link: Option<String>,
    /// The text.
    pub text: String,
}

/// A passage of a course, the unit of search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage {
    /// The number of the lesson; none for the introduction.
    pub lesson: Option<i32>,
    /// The text with white space normalized.
    pub text: String,
}

/// The outline of a course: the course without its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outline {
    /// The title.
    pub title: String,
    /// The address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// The instructor's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructor: Option<String>,
    /// The lessons, in their order.
    pub lessons: Vec<LessonTitle>,
}

/// A lesson without its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LessonTitle {
    /// The number.
    pub number: i32,
    /// The title.
    pub title: String,
    /// The address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

/// The format of a course text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One line per field, such as `Course Title:`, and `Lesson 1:` above each lesson.
    Text,
    /// The first heading is the course; later headings of the first two levels are lessons.
    Markdown,
}

/// A text that is not a course.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCourse {
    /// There is no title.
    #[error("there is no title: it is the line `Course Title: …`, in Markdown the first heading")]
    NoTitle,
    /// A title is empty or too long.
    #[error("line {line}: a title has 1 to {} characters", parser::MAX_TITLE)]
    Title {
        /// The line number.
        line: usize,
    },
    /// A link is not an HTTP address or is too long.
    #[error(
        "line {line}: a link begins with https:// or http:// and has at most {} bytes",
        parser::MAX_LINK
    )]
    Link {
        /// The line number.
        line: usize,
    },
    /// A lesson number is out of range or used twice.
    #[error("line {line}: the lesson number is too large, or another lesson has it")]
    Number {
        /// The line number.
        line: usize,
    },
    /// There is no text.
    #[error("the course has no lessons and no text")]
    Empty,
    /// There is too much text.
    #[error("the course has more than {MAX_LESSONS} lessons or {MAX_PASSAGES} passages")]
    TooLarge,
}

impl Course {
    /// Parses a course. A text that begins with `Course Title:` is read as plain text, whatever its
    /// declared format.
    pub fn read(text: &str, form: Form) -> Result<Self, BadCourse> {
        let text = text.trim_start_matches('\u{feff}');
        match form {
            Form::Markdown if !text::is_plain(text) => markdown::read(text),
            Form::Markdown | Form::Text => text::read(text),
        }
    }

    /// Splits the text into passages of at most 800 characters that end at sentence ends. Each
    /// passage repeats the last sentences of the one before, up to 100 characters.
    pub fn passages(&self) -> Result<Vec<Passage>, BadCourse> {
        let lessons = self.lessons.iter().map(|lesson| (Some(lesson.number), &lesson.text));
        let parts = std::iter::once((None, &self.introduction)).chain(lessons);
        let mut passages = Vec::new();
        for (lesson, text) in parts {
            let texts = passages::passages(text).into_iter();
            passages.extend(texts.map(|text| Passage { lesson, text }));
        }
        if passages.len() > MAX_PASSAGES { Err(BadCourse::TooLarge) } else { Ok(passages) }
    }
}
