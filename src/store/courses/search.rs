//! Full-text search in course passages, by words and their rank.
//!
//! A query has rare words and common words, and a passage that answers it may lack some of them. So
//! the passages that contain all words are ranked, and if these are too few, the passages that
//! contain any word. Ranking every passage with a common word is slow and gains little: for each
//! word only a bounded number of passages is read, which for a rare word are all of them.

use sqlx::PgConnection;

use crate::domain::ids::{CourseId, TenantId};
use crate::store::StoreError;

/// Maximum number of words of a query.
const MAX_WORDS: i64 = 8;
/// Maximum number of passages with all words that are ranked.
const WITH_ALL: i64 = 200;
/// Maximum number of passages with one of the words that are ranked.
const WITH_ONE: i64 = 100;

/// A query and its scope.
#[derive(Debug, Clone, Copy)]
pub struct PassageSearch<'a> {
    /// The tenant.
    pub tenant: TenantId,
    /// The words.
    pub query: &'a str,
    /// Only in this course.
    pub course: Option<CourseId>,
    /// Only in lessons with this number.
    pub lesson: Option<i32>,
    /// Maximum number of passages.
    pub limit: i64,
}

/// A passage that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundPassage {
    /// The title of the course.
    pub course: String,
    /// The link of the course.
    pub course_link: Option<String>,
    /// The number of the lesson; `None` for passages before the first lesson.
    pub lesson: Option<i32>,
    /// The title of the lesson.
    pub lesson_title: Option<String>,
    /// The link of the lesson.
    pub lesson_link: Option<String>,
    /// The text.
    pub text: String,
}

/// Finds the best matching passages, best first.
///
/// The weight of a word follows from the number of passages that contain it; a word in more than
/// `WITH_ONE` passages only breaks ties. The title of a course is part of all its passages: it
/// completes a match, but does not make one alone.
pub async fn find(
    conn: &mut PgConnection,
    search: &PassageSearch<'_>,
) -> Result<Vec<FoundPassage>, StoreError> {
    let found = sqlx::query_file_as!(
        FoundPassage,
        "src/store/courses/search.sql",
        search.tenant.as_uuid(),
        search.query,
        search.course.map(CourseId::as_uuid),
        search.lesson,
        search.limit,
        MAX_WORDS,
        WITH_ALL,
        WITH_ONE,
    )
    .fetch_all(conn)
    .await?;
    Ok(found)
}
