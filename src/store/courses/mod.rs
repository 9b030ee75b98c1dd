//! Courses with their lessons and passages: imported as a whole, and searched.

pub mod search;

use jiff_sqlx::Timestamp;
use serde::Serialize;
use sqlx::{Connection as _, PgConnection};

use super::StoreError;
use crate::domain::course::{Course, LessonTitle, Outline, Passage};
use crate::domain::ids::{CourseId, TenantId};

/// Maximum number of courses of a tenant. An inexact name is compared with all of them.
pub const MAX_COURSES: i64 = 10_000;
/// Passages inserted in one statement.
const AT_A_TIME: usize = 250;

/// An import that failed.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The tenant has the maximum number of courses.
    #[error("there are {MAX_COURSES} courses already")]
    TooMany,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<sqlx::Error> for ImportError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

/// Inserts a course, or replaces the one with its title, in one transaction: readers see the
/// earlier one until the commit. Calls `stored` with the number of passages inserted so far.
pub async fn replace(
    conn: &mut PgConnection,
    tenant: TenantId,
    course: &Course,
    passages: &[Passage],
    mut stored: impl FnMut(usize),
) -> Result<(), ImportError> {
    let mut transaction = conn.begin().await?;
    let id = insert(&mut transaction, tenant, course).await?;
    insert_lessons(&mut transaction, tenant, id, course).await?;
    let mut number = 1;
    for some in passages.chunks(AT_A_TIME) {
        insert_passages(&mut transaction, tenant, id, number, some).await?;
        number += some.len();
        stored(number - 1);
    }
    transaction.commit().await?;
    Ok(())
}

/// Inserts the course itself. A concurrent import of the same course waits here.
async fn insert(
    conn: &mut PgConnection,
    tenant: TenantId,
    course: &Course,
) -> Result<CourseId, ImportError> {
    let id = sqlx::query_scalar!(
        "INSERT INTO courses (id, tenant_id, title, link, instructor)
         SELECT $1, $2, $3, $4, $5
         WHERE EXISTS (SELECT FROM courses WHERE tenant_id = $2 AND title = $3)
            OR (SELECT count(*) FROM courses WHERE tenant_id = $2) < $6
         ON CONFLICT (tenant_id, title) DO UPDATE SET
             link = excluded.link, instructor = excluded.instructor, imported_at = now()
         RETURNING id",
        CourseId::new().as_uuid(),
        tenant.as_uuid(),
        course.title,
        course.link,
        course.instructor,
        MAX_COURSES,
    )
    .fetch_optional(&mut *conn)
    .await?;
    let id = id.ok_or(ImportError::TooMany)?;
    sqlx::query!("DELETE FROM chunks WHERE course_id = $1", id).execute(&mut *conn).await?;
    sqlx::query!("DELETE FROM lessons WHERE course_id = $1", id).execute(conn).await?;
    Ok(id.into())
}

async fn insert_lessons(
    conn: &mut PgConnection,
    tenant: TenantId,
    id: CourseId,
    course: &Course,
) -> Result<(), StoreError> {
    let numbers: Vec<i32> = course.lessons.iter().map(|lesson| lesson.number).collect();
    let titles: Vec<String> = course.lessons.iter().map(|lesson| lesson.title.clone()).collect();
    let links: Vec<Option<String>> =
        course.lessons.iter().map(|lesson| lesson.link.clone()).collect();
    sqlx::query!(
        "INSERT INTO lessons (course_id, number, tenant_id, title, link)
         SELECT $1, number, $2, title, link
         FROM unnest($3::int[], $4::text[], $5::text[]) AS l (number, title, link)",
        id.as_uuid(),
        tenant.as_uuid(),
        &numbers,
        &titles,
        &links as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Inserts passages from a number on. Words in the title of a lesson weigh more than words in its
/// text, and these more than words in the title of the course, which all of its passages share.
async fn insert_passages(
    conn: &mut PgConnection,
    tenant: TenantId,
    id: CourseId,
    first: usize,
    passages: &[Passage],
) -> Result<(), StoreError> {
    let lessons: Vec<Option<i32>> = passages.iter().map(|passage| passage.lesson).collect();
    let texts: Vec<String> = passages.iter().map(|passage| passage.text.clone()).collect();
    sqlx::query!(
        "INSERT INTO chunks (course_id, n, tenant_id, lesson_number, text, words)
         SELECT c.id, $3 + p.place - 1, $2, p.lesson, p.text,
                setweight(to_tsvector('english', coalesce(l.title, '')), 'A')
                || setweight(to_tsvector('english', p.text), 'B')
                || setweight(to_tsvector('english', c.title), 'C')
         FROM courses c,
              unnest($4::int[], $5::text[]) WITH ORDINALITY AS p (lesson, text, place)
              LEFT JOIN lessons l ON l.course_id = $1 AND l.number = p.lesson
         WHERE c.id = $1",
        id.as_uuid(),
        tenant.as_uuid(),
        i64::try_from(first).unwrap_or(i64::MAX),
        &lessons as _,
        &texts,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Lists the titles of a tenant's courses.
pub async fn list_titles(
    conn: &mut PgConnection,
    tenant: TenantId,
) -> Result<Vec<(CourseId, String)>, StoreError> {
    let rows = sqlx::query!(
        "SELECT id, title FROM courses WHERE tenant_id = $1 ORDER BY title",
        tenant.as_uuid(),
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id.into(), row.title)).collect())
}

/// Reads the outline of a course, without its passages.
pub async fn find_outline(
    conn: &mut PgConnection,
    tenant: TenantId,
    id: CourseId,
) -> Result<Option<Outline>, StoreError> {
    let rows = sqlx::query!(
        r#"SELECT c.title, c.link, c.instructor, l.number AS "number?", l.title AS "lesson?",
                  l.link AS lesson_link
           FROM courses c LEFT JOIN lessons l ON l.course_id = c.id
           WHERE c.id = $1 AND c.tenant_id = $2
           ORDER BY l.number"#,
        id.as_uuid(),
        tenant.as_uuid(),
    )
    .fetch_all(conn)
    .await?;
    let mut outline: Option<Outline> = None;
    for row in rows {
        let (title, link, instructor) = (row.title, row.link, row.instructor);
        let new = || Outline { title, link, instructor, lessons: Vec::new() };
        let outline = outline.get_or_insert_with(new);
        let lesson = row.number.zip(row.lesson);
        let link = row.lesson_link;
        outline.lessons.extend(lesson.map(|(number, title)| LessonTitle { number, title, link }));
    }
    Ok(outline)
}

/// A course and its size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CourseSummary {
    /// The title.
    pub title: String,
    /// The number of lessons.
    pub lessons: i64,
    /// The number of passages.
    pub passages: i64,
    /// The time of the last import.
    pub imported_at: jiff::Timestamp,
}

struct Row {
    title: String,
    lessons: i64,
    passages: i64,
    imported_at: Timestamp,
}

impl From<Row> for CourseSummary {
    fn from(row: Row) -> Self {
        let Row { title, lessons, passages, imported_at } = row;
        Self { title, lessons, passages, imported_at: imported_at.to_jiff() }
    }
}

/// Lists the courses of a tenant by title.
pub async fn list(
    conn: &mut PgConnection,
    tenant: TenantId,
) -> Result<Vec<CourseSummary>, StoreError> {
    let rows = sqlx::query_as!(
        Row,
        r#"SELECT title, imported_at AS "imported_at: Timestamp",
                  (SELECT count(*) FROM lessons WHERE course_id = c.id) AS "lessons!",
                  (SELECT count(*) FROM chunks WHERE course_id = c.id) AS "passages!"
           FROM courses c WHERE tenant_id = $1 ORDER BY title"#,
        tenant.as_uuid(),
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(CourseSummary::from).collect())
}

/// Deletes the course with this title. Returns false if there is none.
pub async fn remove(
    conn: &mut PgConnection,
    tenant: TenantId,
    title: &str,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "DELETE FROM courses WHERE tenant_id = $1 AND title = $2",
        tenant.as_uuid(),
        title,
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() > 0)
}
