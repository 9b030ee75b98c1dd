//! Looking things up in the courses of the session's owner, which `twostep catalog` keeps.

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
use crate::tools::{ToolContext, ToolError};

/// Letters of a name, or of a query, at most.
const MAX_LETTERS: usize = 1000;
/// Titles that are named when none is like the one that was asked for.
const TOLD: usize = 20;

/// What stands in the way of a look.
#[derive(Debug)]
enum Failure {
    /// The model can do something about it.
    Told(ToolError),
    /// It cannot.
    Store(StoreError),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Looks something up for the session's owner. A look that is given up costs its connection.
async fn look<T>(
    context: &ToolContext,
    work: impl AsyncFnOnce(&mut PgConnection, TenantId) -> Result<T, Failure>,
) -> Result<T, ToolError> {
    let looked = async {
        let rows = context.caller.rows().await?;
        let nobodys = || ToolError::Failed("there are no courses here".to_owned());
        let (mut conn, owner) = rows.ok_or_else(nobodys).map_err(Failure::Told)?;
        match work(&mut conn, owner).await {
            Err(Failure::Store(error)) => Err(error.into()),
            done => {
                conn.give_back();
                done
            }
        }
    };
    looked.await.map_err(|failure| match failure {
        Failure::Told(error) => error,
        Failure::Store(error) => {
            tracing::warn!(%error, "courses cannot be looked up");
            ToolError::Failed("the courses cannot be looked up now".to_owned())
        }
    })
}

/// The course that a name means, however nearly.
async fn find_course(
    conn: &mut PgConnection,
    tenant: TenantId,
    name: &str,
) -> Result<CourseId, Failure> {
    let titles = list_titles(conn, tenant).await?;
    let place = most_like(name, titles.iter().map(|(_, title)| title.as_str()));
    match place.and_then(|place| titles.get(place)) {
        Some((id, _)) => Ok(*id),
        None => Err(Failure::Told(ToolError::Failed(unknown(name, &titles)))),
    }
}

fn unknown(name: &str, titles: &[(CourseId, String)]) -> String {
    if titles.is_empty() {
        return format!("there is no course like {name:?}: there are no courses at all");
    }
    let told = titles.iter().take(TOLD).map(|(_, title)| format!("{title:?}"));
    let told = told.collect::<Vec<_>>().join(", ");
    let more = titles.len().saturating_sub(TOLD);
    let more = if more == 0 { String::new() } else { format!(", and {more} more") };
    format!("there is no course like {name:?}; there are {told}{more}")
}

/// A text of the model's that somebody has to read.
fn checked<'a>(what: &str, text: &'a str) -> Result<&'a str, ToolError> {
    let text = text.trim();
    let wrong = |why: &str| Err(ToolError::Invalid(format!("the {what} {why}")));
    match text.chars().count() {
        0 => wrong("is empty"),
        letters if letters > MAX_LETTERS => wrong("is longer than 1,000 letters"),
        // The database has no such letter.
        _ if text.contains('\0') => wrong("has a NUL"),
        _ => Ok(text),
    }
}

/// A course, or one of its lessons, as a source.
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
    fn a_text_has_letters_and_the_database_takes_them() {
        let invalid = |why: &str| Err(ToolError::Invalid(format!("the query {why}")));
        assert_eq!(checked("query", " tools\n"), Ok("tools"));
        assert_eq!(checked("query", " \n"), invalid("is empty"));
        assert_eq!(checked("query", "a\0b"), invalid("has a NUL"));
        assert_eq!(checked("query", &"ü".repeat(1001)), invalid("is longer than 1,000 letters"));
    }
}
