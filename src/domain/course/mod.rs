//! Courses: what agents look things up in, and how a text is read as one.

mod draft;
mod likeness;
mod markdown;
mod passages;
#[cfg(test)]
mod tests;
mod text;

use serde::Serialize;

pub use likeness::most_like;

/// Lessons of a course at most.
const MAX_LESSONS: usize = 1000;
/// Passages of a course at most: some sixteen million letters.
const MAX_PASSAGES: usize = 20_000;

/// A course with all that it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Course {
    /// Its name.
    pub title: String,
    /// Where it is.
    pub link: Option<String>,
    /// Who teaches it.
    pub instructor: Option<String>,
    /// What stands before the first lesson.
    pub introduction: String,
    /// The lessons, in their order.
    pub lessons: Vec<Lesson>,
}

/// A lesson with all that it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lesson {
    /// Its number, one of a kind in the course.
    pub number: i32,
    /// Its name.
    pub title: String,
    /// Where it is.
    pub link: Option<String>,
    /// What it says.
    pub text: String,
}

/// A part of what a course says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage {
    /// The lesson; none for what stands before the first one.
    pub lesson: Option<i32>,
    /// The text, white space made plain.
    pub text: String,
}

/// A course without what it says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outline {
    /// Its name.
    pub title: String,
    /// Where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Who teaches it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructor: Option<String>,
    /// The lessons, in their order.
    pub lessons: Vec<LessonTitle>,
}

/// A lesson without what it says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LessonTitle {
    /// Its number.
    pub number: i32,
    /// Its name.
    pub title: String,
    /// Where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

/// How a text is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A line for each fact, such as `Course Title:`, and `Lesson 1:` above each lesson.
    Text,
    /// The first heading is the course, those of the first two levels behind it are lessons.
    Markdown,
}

/// A text that is no course.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCourse {
    /// Nobody could name it.
    #[error("there is no title: it is the line `Course Title: …`, in Markdown the first heading")]
    NoTitle,
    /// A title that is none.
    #[error("line {line}: a title has 1 to {} letters", draft::MAX_TITLE)]
    Title {
        /// Where it stands.
        line: usize,
    },
    /// A link that a reader must not follow, or cannot.
    #[error(
        "line {line}: a link begins with https:// or http:// and has {} bytes at most",
        draft::MAX_LINK
    )]
    Link {
        /// Where it stands.
        line: usize,
    },
    /// A number that is none, or not the only one of its kind.
    #[error("line {line}: the lesson's number is too large, or another lesson has it")]
    Number {
        /// Where it stands.
        line: usize,
    },
    /// Nothing to look up.
    #[error("it has no lessons, and says nothing")]
    Empty,
    /// Too much of it.
    #[error("it has more than {MAX_LESSONS} lessons, or is longer than {MAX_PASSAGES} passages")]
    TooLarge,
}

impl Course {
    /// Reads a text as a course. A text that begins with `Course Title:` is plain, whatever it is
    /// said to be.
    pub fn read(text: &str, form: Form) -> Result<Self, BadCourse> {
        let text = text.trim_start_matches('\u{feff}');
        match form {
            Form::Markdown if !text::is_plain(text) => markdown::read(text),
            Form::Markdown | Form::Text => text::read(text),
        }
    }

    /// What it says, in passages of at most 800 letters that end where sentences end. Each repeats
    /// the last sentences of the one before, up to 100 letters.
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
