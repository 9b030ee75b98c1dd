//! `twostep catalog import`: imports files as courses.

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
use crate::tools::pdf;

/// Maximum size of a file, in bytes.
const MAX_FILE: u64 = 16 * 1024 * 1024;

#[derive(Debug, Args)]
pub(super) struct Import {
    /// Files, one course each, in UTF-8: Markdown if the name ends in .md, otherwise lines such as
    /// `Course Title:` and `Lesson 1:`. The text of PDF documents is read as such lines
    #[arg(required = true, value_name = "FILES")]
    files: Vec<PathBuf>,
}

/// A course that was read from a file.
#[derive(Debug)]
pub(super) struct ReadCourse {
    course: Course,
    passages: Vec<Passage>,
}

impl Import {
    /// Reads all files. An error names the file.
    pub(super) async fn read(&self) -> anyhow::Result<Vec<ReadCourse>> {
        let documents = pdf::Reader::default();
        let mut courses: Vec<ReadCourse> = Vec::with_capacity(self.files.len());
        for path in &self.files {
            let read = read(path, &documents).await;
            let read = read.with_context(|| format!("{} cannot be imported", path.display()))?;
            if courses.iter().any(|other| other.course.title == read.course.title) {
                bail!("two files have the course {:?}", read.course.title);
            }
            courses.push(read);
        }
        Ok(courses)
    }
}

async fn read(path: &Path, documents: &pdf::Reader) -> anyhow::Result<ReadCourse> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE {
        bail!("the file is larger than {} MiB", MAX_FILE / 1024 / 1024);
    }
    let is_named = |ends: &[&str]| {
        path.extension().is_some_and(|end| ends.iter().any(|one| end.eq_ignore_ascii_case(one)))
    };
    // A PDF is recognized by its first bytes too, because no text starts with them.
    let text = if is_named(&["pdf"]) || bytes.starts_with(b"%PDF-") {
        text(&bytes, documents).await.context("the PDF could not be read")?
    } else {
        std::io::read_to_string(bytes.as_slice())?
    };
    let form = if is_named(&["md", "markdown"]) { Form::Markdown } else { Form::Text };
    // Postgres cannot store NUL in text.
    let course = Course::read(&text.replace('\0', "\u{fffd}"), form)?;
    let passages = course.passages()?;
    Ok(ReadCourse { course, passages })
}

/// Returns the text of a document. An incomplete text is an error.
async fn text(bytes: &[u8], documents: &pdf::Reader) -> anyhow::Result<String> {
    let most = usize::try_from(MAX_FILE)?;
    let document = documents.read(bytes, most).await?;
    if document.left_out > 0 {
        bail!("the document has too many pages or too much text");
    }
    Ok(document.text())
}

/// Stores the courses one after the other and prints a line for each.
pub(super) async fn store(
    conn: &mut PgConnection,
    tenant: TenantId,
    courses: &[ReadCourse],
) -> anyhow::Result<()> {
    let all = courses.iter().map(|read| read.passages.len()).sum();
    let mut progress = Progress::new(all);
    for ReadCourse { course, passages } in courses {
        progress.begin(&course.title);
        let done = replace(conn, tenant, course, passages, |stored| progress.show(stored)).await;
        progress.end(passages.len());
        let title = &course.title;
        done.with_context(|| format!("the course {title:?} could not be stored"))?;
        let (lessons, passages) = (course.lessons.len(), passages.len());
        output::print_line(&one_line(&format!("{title}  {lessons} lessons, {passages} passages")));
    }
    Ok(())
}
