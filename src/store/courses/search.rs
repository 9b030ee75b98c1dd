//! Searching what courses say, by words and their rank.
//!
//! A question has words that are rare and words that are in every second passage, and not all of
//! them are where its answer is. So passages with any of its words are ranked, those with all of
//! them first. To rank every passage that has a common word takes long and tells little: of each
//! word only so many are looked at, which are all that there are of a rare one.

use sqlx::PgConnection;

use crate::domain::ids::{CourseId, TenantId};
use crate::store::StoreError;

/// Words of a question that count.
const MAX_WORDS: i64 = 12;
/// Passages that have all of the words, of which the best are found.
const WITH_ALL: i64 = 500;
/// Passages that have one of the words, of which the best are found.
const WITH_ONE: i64 = 200;

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
pub async fn find(
    conn: &mut PgConnection,
    search: &Search<'_>,
) -> Result<Vec<Found>, StoreError> {
    match search.course {
        Some(course) => in_course(conn, course, search).await,
        None => everywhere(conn, search).await,
    }
}

async fn everywhere(
    conn: &mut PgConnection,
    search: &Search<'_>,
) -> Result<Vec<Found>, StoreError> {
    let found = sqlx::query_as!(
        Found,
        r#"WITH word AS MATERIALIZED (
               SELECT ('''' || replace(replace(lexeme, '\', '\\'), '''', '''''') || '''') AS quoted
               FROM unnest(to_tsvector('english', $2)) ORDER BY positions[1] LIMIT $3
           ), words AS MATERIALIZED (
               SELECT string_agg(quoted, ' & ')::tsquery AS all_of,
                      string_agg(quoted, ' | ')::tsquery AS any_of FROM word
           ), candidate AS (
               (SELECT course_id, n FROM chunks, words
                WHERE tenant_id = $1 AND words @@ all_of AND ($4::int IS NULL OR lesson_number = $4)
                LIMIT $5)
               UNION
               SELECT one.course_id, one.n
               FROM word, LATERAL (
                   SELECT course_id, n FROM chunks
                   WHERE tenant_id = $1 AND words @@ quoted::tsquery
                     AND ($4::int IS NULL OR lesson_number = $4)
                   LIMIT $6) one
           ), best AS (
               SELECT course_id, n, words @@ all_of AS has_all, ts_rank(words, any_of) AS rank
               FROM candidate JOIN chunks USING (course_id, n), words
               ORDER BY has_all DESC, rank DESC, course_id, n LIMIT $7
           )
           SELECT c.title AS course, c.link AS course_link, k.lesson_number AS lesson,
                  l.title AS "lesson_title?", l.link AS lesson_link, k.text
           FROM best JOIN chunks k USING (course_id, n) JOIN courses c ON c.id = k.course_id
           LEFT JOIN lessons l ON l.course_id = k.course_id AND l.number = k.lesson_number
           ORDER BY has_all DESC, rank DESC, k.course_id, k.n"#,
        search.tenant.as_uuid(),
        search.query,
        MAX_WORDS,
        search.lesson,
        WITH_ALL,
        WITH_ONE,
        search.limit,
    )
    .fetch_all(conn)
    .await?;
    Ok(found)
}

/// One course is small enough to look at all that it says.
async fn in_course(
    conn: &mut PgConnection,
    course: CourseId,
    search: &Search<'_>,
) -> Result<Vec<Found>, StoreError> {
    let found = sqlx::query_as!(
        Found,
        r#"WITH word AS MATERIALIZED (
               SELECT ('''' || replace(replace(lexeme, '\', '\\'), '''', '''''') || '''') AS quoted
               FROM unnest(to_tsvector('english', $2)) ORDER BY positions[1] LIMIT $3
           ), words AS MATERIALIZED (
               SELECT string_agg(quoted, ' & ')::tsquery AS all_of,
                      string_agg(quoted, ' | ')::tsquery AS any_of FROM word
           )
           SELECT c.title AS course, c.link AS course_link, k.lesson_number AS lesson,
                  l.title AS "lesson_title?", l.link AS lesson_link, k.text
           FROM words, courses c JOIN chunks k ON k.course_id = c.id
           LEFT JOIN lessons l ON l.course_id = k.course_id AND l.number = k.lesson_number
           WHERE c.id = $4 AND c.tenant_id = $1 AND k.words @@ any_of
             AND ($5::int IS NULL OR k.lesson_number = $5)
           ORDER BY k.words @@ all_of DESC, ts_rank(k.words, any_of) DESC, k.n LIMIT $6"#,
        search.tenant.as_uuid(),
        search.query,
        MAX_WORDS,
        course.as_uuid(),
        search.lesson,
        search.limit,
    )
    .fetch_all(conn)
    .await?;
    Ok(found)
}
