//! A course while it is parsed, line by line.

use super::{BadCourse, Course, Lesson, MAX_LESSONS};

/// Maximum number of characters of a title or a name.
pub(super) const MAX_TITLE: usize = 300;
/// Maximum length of a link in bytes.
pub(super) const MAX_LINK: usize = 2000;

/// A parser of course lines, with the lines parsed so far.
#[derive(Debug, Default)]
pub(super) struct CourseParser {
    title: Option<String>,
    link: Option<String>,
    instructor: Option<String>,
    introduction: String,
    lessons: Vec<Lesson>,
}

impl CourseParser {
    pub(super) fn has_title(&self) -> bool {
        self.title.is_some()
    }

    /// Sets the title of the course.
    pub(super) fn name(&mut self, line: usize, title: &str) -> Result<(), BadCourse> {
        self.title = Some(titled(line, title)?);
        Ok(())
    }

    /// Starts a lesson. A lesson without a number gets the next number.
    pub(super) fn begin(
        &mut self,
        line: usize,
        number: Option<&str>,
        title: &str,
    ) -> Result<(), BadCourse> {
        let next = self.lessons.last().map_or(Some(1), |lesson| lesson.number.checked_add(1));
        let number = number.map_or(next, |digits| digits.parse().ok());
        let is_new = |number: &i32| self.lessons.iter().all(|lesson| lesson.number != *number);
        let number = number.filter(is_new).ok_or(BadCourse::Number { line })?;
        let title =
            if title.trim().is_empty() { format!("Lesson {number}") } else { titled(line, title)? };
        self.lessons.push(Lesson { number, title, link: None, text: String::new() });
        if self.lessons.len() > MAX_LESSONS { Err(BadCourse::TooLarge) } else { Ok(()) }
    }

    /// Sets the link of the last lesson.
    pub(super) fn link_lesson(&mut self, line: usize, link: &str) -> Result<(), BadCourse> {
        let link = linked(line, link)?;
        if let Some(lesson) = self.lessons.last_mut() {
            lesson.link = link;
        }
        Ok(())
    }

    /// Adds a line: a field where fields are allowed, otherwise text.
    pub(super) fn add_line(&mut self, line: usize, text: &str) -> Result<(), BadCourse> {
        let Some(lesson) = self.lessons.last_mut() else { return self.add_early_line(line, text) };
        if lesson.text.trim().is_empty()
            && let Some(link) = field(text, "Lesson Link")
        {
            return self.link_lesson(line, link);
        }
        add(&mut lesson.text, text);
        Ok(())
    }

    fn add_early_line(&mut self, line: usize, text: &str) -> Result<(), BadCourse> {
        if let Some(title) = field(text, "Course Title") {
            return self.name(line, title);
        }
        if let Some(link) = field(text, "Course Link") {
            self.link = linked(line, link)?;
        } else if let Some(name) = field(text, "Course Instructor") {
            let is_named = !name.trim().is_empty();
            self.instructor = is_named.then(|| titled(line, name)).transpose()?;
        } else {
            add(&mut self.introduction, text);
        }
        Ok(())
    }

    /// Returns the course after the last line.
    pub(super) fn finish(self) -> Result<Course, BadCourse> {
        let Self { title, link, instructor, introduction, lessons } = self;
        let title = title.ok_or(BadCourse::NoTitle)?;
        if lessons.is_empty() && introduction.trim().is_empty() {
            return Err(BadCourse::Empty);
        }
        Ok(Course { title, link, instructor, introduction, lessons })
    }
}

/// Returns the value of a field such as `Course Title: …`; the field's case is ignored.
pub(super) fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (key, value) = line.trim_start().split_once(':')?;
    key.trim_end().eq_ignore_ascii_case(name).then_some(value)
}

fn add(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// Normalizes a title to one line without control characters.
fn titled(line: usize, text: &str) -> Result<String, BadCourse> {
    let words = text.split_whitespace().map(|word| word.replace(char::is_control, ""));
    let title = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    let is_fine = (1..=MAX_TITLE).contains(&title.chars().count());
    if is_fine { Ok(title) } else { Err(BadCourse::Title { line }) }
}

/// Checks a link that readers may open; none for an empty field.
fn linked(line: usize, text: &str) -> Result<Option<String>, BadCourse> {
    let link = text.trim();
    if link.is_empty() {
        return Ok(None);
    }
    let is_web = ["https://", "http://"].iter().any(|scheme| {
        link.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme))
    });
    let is_plain = link.chars().all(|c| !c.is_whitespace() && !c.is_control());
    let is_fine = is_web && is_plain && link.len() <= MAX_LINK;
    if is_fine { Ok(Some(link.to_owned())) } else { Err(BadCourse::Link { line }) }
}
