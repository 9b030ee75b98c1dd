//! Lookups in the courses of the session's owner. `twostep catalog` manages the courses.

mod get_course_outline;
mod search_course_content;

use sqlx::PgConnection;

pub(super) use get_course_outline::GetCourseOutline;
pub(super) use search_course_content::SearchCourseContent;

use crate::domain::course::most_like;
use crate::domain::ids::{CourseId, TenantId};
use crate::domain::source::Source;
use crate::store::StoreError;
use crate::store::courses::list_titles;
use crate::tools::error::ToolError;
use crate::tools::tool::ToolContext;

/// The maximum length of a name or a query, in characters.
const MAX_LETTERS: usize = 1000;
/// The maximum number of titles in the error for an unknown course.
const MAX_TITLES: usize = 20;

/// The reason why a lookup failed.
#[derive(Debug)]
enum Failure {
    /// An error that the model can correct.
    Refused(ToolError),
    /// An error of the database.
    Store(StoreError),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Runs a lookup for the session's owner.
async fn run_lookup<T>(
    context: &ToolContext,
    work: impl AsyncFnOnce(&mut PgConnection, TenantId) -> Result<T, Failure>,
) -> Result<T, ToolError> {
    let found = context.caller.with_owner(async |conn, owner| match work(conn, owner).await {
        Ok(found) => Ok(Ok(found)),
        // The connection remains usable.
        Err(Failure::Refused(refusal)) => Ok(Err(refusal)),
        Err(Failure::Store(error)) => Err(error),
    });
    match found.await {
        Ok(Some(found)) => found,
        Ok(None) => Err(ToolError::Failed("there are no courses".to_owned())),
        Err(error) => {
            tracing::warn!(%error, "courses could not be read");
            Err(ToolError::Failed("the courses cannot be read now".to_owned()))
        }
    }
}

/// Finds the course whose title is most similar to a name.
async fn find_course(
    conn: &mut PgConnection,
    tenant: TenantId,
    name: &str,
) -> Result<CourseId, Failure> {
    let titles = list_titles(conn, tenant).await?;
    let place = most_like(name, titles.iter().map(|(_, title)| title.as_str()));
    match place.and_then(|place| titles.get(place)) {
        Some((id, _)) => Ok(*id),
        None => Err(Failure::Refused(ToolError::Failed(unknown(name, &titles)))),
    }
}

fn unknown(name: &str, titles: &[(CourseId, String)]) -> String {
    if titles.is_empty() {
        return format!("no course matches {name:?}: there are no courses");
    }
    let listed = titles.iter().take(MAX_TITLES).map(|(_, title)| format!("{title:?}"));
    let listed = listed.collect::<Vec<_>>().join(", ");
    let more = titles.len().saturating_sub(MAX_TITLES);
    let more = if more == 0 { String::new() } else { format!(", and {more} more") };
    format!("no course matches {name:?}; the courses are {listed}{more}")
}

/// Checks the length and the characters of an input text.
fn checked<'a>(what: &str, text: &'a str) -> Result<&'a str, ToolError> {
    let text = text.trim();
    let wrong = |why: &str| Err(ToolError::Invalid(format!("the {what} {why}")));
    match text.chars().count() {
        0 => wrong("is empty"),
        letters if letters > MAX_LETTERS => wrong("is longer than 1,000 characters"),
        // Postgres does not store NUL characters.
        _ if text.contains('\0') => wrong("has a NUL character"),
        _ => Ok(text),
    }
}

/// Returns a course or one of its lessons as a source.
fn source(course: &str, lesson: Option<(i32, &str)>, url: Option<&str>) -> Source {
    let title = match lesson {
        Some((number, title)) => format!("{course} - Lesson {number}: {title}"),
        None => course.to_owned(),
    };
    Source { title, url: url.map(str::to_owned) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_and_long_texts_and_nul_characters_are_refused() {
        let invalid = |why: &str| Err(ToolError::Invalid(format!("the query {why}")));
        assert_eq!(checked("query", " tools\n"), Ok("tools"));
        assert_eq!(checked("query", " \n"), invalid("is empty"));
        assert_eq!(checked("query", "a\0b"), invalid("has a NUL character"));
        assert_eq!(checked("query", &"ü".repeat(1001)), invalid("is longer than 1,000 characters"));
    }
}
