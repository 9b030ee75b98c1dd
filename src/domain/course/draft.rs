//! A course while it is read, line by line.

use super::{BadCourse, Course, Lesson, MAX_LESSONS};

/// Letters of a title, or of a name, at most.
pub(super) const MAX_TITLE: usize = 300;
/// Bytes of a link at most.
pub(super) const MAX_LINK: usize = 2000;

/// What was read so far.
#[derive(Debug, Default)]
pub(super) struct Draft {
    title: Option<String>,
    link: Option<String>,
    instructor: Option<String>,
    introduction: String,
    lessons: Vec<Lesson>,
}

impl Draft {
    pub(super) fn has_title(&self) -> bool {
        self.title.is_some()
    }

    /// Takes the name of the course.
    pub(super) fn name(&mut self, line: usize, title: &str) -> Result<(), BadCourse> {
        self.title = Some(titled(line, title)?);
        Ok(())
    }

    /// Begins a lesson. One without a number has the next one.
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

    /// Gives the last lesson its link.
    pub(super) fn link_lesson(&mut self, line: usize, link: &str) -> Result<(), BadCourse> {
        let link = linked(line, link)?;
        if let Some(lesson) = self.lessons.last_mut() {
            lesson.link = link;
        }
        Ok(())
    }

    /// Takes a line that begins nothing: a fact, where facts stand, or else a part of the text.
    pub(super) fn take(&mut self, line: usize, text: &str) -> Result<(), BadCourse> {
        let Some(lesson) = self.lessons.last_mut() else { return self.take_early(line, text) };
        if lesson.text.trim().is_empty()
            && let Some(link) = fact(text, "Lesson Link")
        {
            return self.link_lesson(line, link);
        }
        add(&mut lesson.text, text);
        Ok(())
    }

    fn take_early(&mut self, line: usize, text: &str) -> Result<(), BadCourse> {
        if let Some(title) = fact(text, "Course Title") {
            return self.name(line, title);
        }
        if let Some(link) = fact(text, "Course Link") {
            self.link = linked(line, link)?;
        } else if let Some(name) = fact(text, "Course Instructor") {
            let is_named = !name.trim().is_empty();
            self.instructor = is_named.then(|| titled(line, name)).transpose()?;
        } else {
            add(&mut self.introduction, text);
        }
        Ok(())
    }

    /// The course, once all lines are read.
    pub(super) fn finish(self) -> Result<Course, BadCourse> {
        let Self { title, link, instructor, introduction, lessons } = self;
        let title = title.ok_or(BadCourse::NoTitle)?;
        if lessons.is_empty() && introduction.trim().is_empty() {
            return Err(BadCourse::Empty);
        }
        Ok(Course { title, link, instructor, introduction, lessons })
    }
}

/// What a line says of this: `Course Title: …` in any case.
pub(super) fn fact<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (key, value) = line.trim_start().split_once(':')?;
    key.trim_end().eq_ignore_ascii_case(name).then_some(value)
}

fn add(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// A title on one line, in which nothing is hidden.
fn titled(line: usize, text: &str) -> Result<String, BadCourse> {
    let words = text.split_whitespace().map(|word| word.replace(char::is_control, ""));
    let title = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    let is_fine = (1..=MAX_TITLE).contains(&title.chars().count());
    if is_fine { Ok(title) } else { Err(BadCourse::Title { line }) }
}

/// A link that readers may be given to follow; none where the line has none.
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
