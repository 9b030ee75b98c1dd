//! `twostep catalog import`: files as courses.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use sqlx::PgConnection;

use super::progress::Progress;
use crate::cli::output;
use crate::cli::terminal::one_line;
use crate::domain::course::{Course, Form, Passage};
use crate::domain::ids::TenantId;
use crate::store::courses::replace;

/// Bytes of a file at most.
const MAX_FILE: u64 = 16 * 1024 * 1024;

#[derive(Debug, Args)]
pub(super) struct Import {
    /// Texts in UTF-8, a course each: Markdown where the name ends in .md, else lines such as
    /// `Course Title:` and `Lesson 1:`
    #[arg(required = true, value_name = "FILES")]
    files: Vec<PathBuf>,
}

/// A file that was read.
#[derive(Debug)]
pub(super) struct Read {
    course: Course,
    passages: Vec<Passage>,
}

impl Import {
    /// Reads all files, or says what is wrong with one.
    pub(super) fn read(&self) -> anyhow::Result<Vec<Read>> {
        let mut courses: Vec<Read> = Vec::with_capacity(self.files.len());
        for path in &self.files {
            let read =
                read(path).with_context(|| format!("{} cannot be imported", path.display()))?;
            if courses.iter().any(|other| other.course.title == read.course.title) {
                bail!("two files have the course {:?}", read.course.title);
            }
            courses.push(read);
        }
        Ok(courses)
    }
}

fn read(path: &Path) -> anyhow::Result<Read> {
    let mut text = String::new();
    File::open(path)?.take(MAX_FILE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE {
        bail!("it has more than {} MiB", MAX_FILE / 1024 / 1024);
    }
    let is_markdown = path.extension().is_some_and(|end| {
        ["md", "markdown"].iter().any(|markdown| end.eq_ignore_ascii_case(markdown))
    });
    let form = if is_markdown { Form::Markdown } else { Form::Text };
    // The database has no such letter.
    let course = Course::read(&text.replace('\0', "\u{fffd}"), form)?;
    let passages = course.passages()?;
    Ok(Read { course, passages })
}

/// Stores courses, one after the other, and prints a line for each.
pub(super) async fn store(
    conn: &mut PgConnection,
    tenant: TenantId,
    courses: &[Read],
) -> anyhow::Result<()> {
    let all = courses.iter().map(|read| read.passages.len()).sum();
    let mut progress = Progress::new(all);
    for Read { course, passages } in courses {
        progress.begin(&course.title);
        let done = replace(conn, tenant, (course, passages), |stored| progress.show(stored)).await;
        progress.end(passages.len());
        let title = &course.title;
        done.with_context(|| format!("the course {title:?} could not be stored"))?;
        let (lessons, passages) = (course.lessons.len(), passages.len());
        output::say(&one_line(&format!("{title}  {lessons} lessons, {passages} passages")));
    }
    Ok(())
}
