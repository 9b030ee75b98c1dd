//! Searching what courses say, by words and their rank.
//!
//! A question has words that are rare and words that are in every second passage, and not all of
//! them are where its answer is. So the passages that have them all are ranked, and if there are too
//! few of these, those that have one. To rank every passage that has a common word takes long and
//! tells little: of each word only so many are looked at, which are all that there are of a rare one.

use sqlx::PgConnection;

use crate::domain::ids::{CourseId, TenantId};
use crate::store::StoreError;

/// Words of a question that count.
const MAX_WORDS: i64 = 8;
/// Passages that have all of the words, of which the best are found.
const WITH_ALL: i64 = 200;
/// Passages that have one of the words, of which the best are found.
const WITH_ONE: i64 = 100;

/// What is looked for, and where.
#[derive(Debug, Clone, Copy)]
pub struct Search<'a> {
    /// Whose courses.
    pub tenant: TenantId,
    /// The words.
    pub query: &'a str,
    /// Only in this course.
    pub course: Option<CourseId>,
    /// Only in lessons of this number.
    pub lesson: Option<i32>,
    /// How many passages at most.
    pub limit: i64,
}

/// A passage that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The course.
    pub course: String,
    /// Where that is.
    pub course_link: Option<String>,
    /// The lesson's number; none for what stands before the first one.
    pub lesson: Option<i32>,
    /// The lesson's title.
    pub lesson_title: Option<String>,
    /// Where the lesson is.
    pub lesson_link: Option<String>,
    /// What it says.
    pub text: String,
}

/// Finds the passages that fit best, the best first.
///
/// What a word is worth follows from how many passages have it; one that more than `WITH_ONE` have
/// only decides between passages that are worth the same. The title of a course is in all of its
/// passages: it can be what a passage lacks of all words, but alone it finds none.
pub async fn find(conn: &mut PgConnection, search: &Search<'_>) -> Result<Vec<Found>, StoreError> {
    let found = sqlx::query_file_as!(
        Found,
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
