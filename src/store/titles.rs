//! Titles that the model makes for sessions, and the records of the requests for them.
//!
//! A request for a title is made after its run has settled, so no step stores it. Its record belongs to
//! the run all the same: it has the next number, and its usage counts for run, session and budgets.

use sqlx::{Connection as _, PgConnection};

use super::events::append;
use super::{StoreError, unreadable};
use crate::domain::event::{EventBody, Frame, NewEvent};
use crate::domain::ids::{RunId, SessionId};
use crate::domain::request::RequestRecord;
use crate::domain::storable::storable_json_of;

/// The beginning of a conversation without a title.
#[derive(Debug)]
pub struct Untitled {
    /// The blocks of the first user message.
    pub question: String,
    /// The text of the answer.
    pub answer: String,
}

/// Reads the message and the answer of a completed run, if the session needs a title: it has none,
/// the run is the first one that was completed, and no budget of the owner applies.
///
/// A budget allows a request after a reservation, which belongs to a running run.
pub async fn find_untitled(
    conn: &mut PgConnection,
    session_id: SessionId,
    run_id: RunId,
) -> Result<Option<Untitled>, StoreError> {
    Ok(sqlx::query_as!(
        Untitled,
        r#"SELECT r.input::text AS "question!",
                  coalesce(r.outcome ->> 'output_text', '') AS "answer!"
           FROM runs r JOIN sessions s ON s.id = r.session_id
           WHERE r.id = $2 AND r.session_id = $1 AND r.status = 'completed' AND s.title IS NULL
             AND NOT EXISTS (SELECT FROM runs e
                             WHERE e.session_id = $1 AND e.status = 'completed'
                               AND e.accepted_seq < r.accepted_seq)
             AND NOT EXISTS (SELECT FROM budgets b WHERE b.tenant_id = r.tenant_id)"#,
        session_id.as_uuid(),
        run_id.as_uuid(),
    )
    .fetch_optional(conn)
    .await?)
}

/// A request for a title that has ended.
#[derive(Debug)]
pub struct TitleRecord<'a> {
    /// The session.
    pub session_id: SessionId,
    /// The run whose message and answer it quoted.
    pub run_id: RunId,
    /// The attempt that completed the run.
    pub attempt: i32,
    /// The record of the request.
    pub request: &'a RequestRecord,
    /// The title, if the reply has one.
    pub title: Option<&'a str>,
}

/// The effect of a record.
#[derive(Debug)]
pub enum Recorded {
    /// The request is stored; the frames are the event of the new title, unless the session has got
    /// another one meanwhile.
    Stored(Vec<Frame>),
    /// An earlier try has stored it.
    Repeated,
    /// The session was deleted.
    Gone,
}

/// Stores a request for a title with its usage, and the title if the session has none. A repeated
/// record of the same run writes nothing.
pub async fn record(
    conn: &mut PgConnection,
    new: &TitleRecord<'_>,
) -> Result<Recorded, StoreError> {
    let mut transaction = conn.begin().await?;
    let session = new.session_id.as_uuid();
    // The lock comes before that of the run, as everywhere.
    let has_title = sqlx::query_scalar!(
        r#"SELECT title IS NOT NULL AS "has_title!" FROM sessions WHERE id = $1
           FOR NO KEY UPDATE"#,
        session,
    )
    .fetch_optional(&mut *transaction)
    .await?;
    let Some(has_title) = has_title else { return Ok(Recorded::Gone) };
    if !insert(&mut transaction, new).await? {
        return Ok(Recorded::Repeated);
    }
    spend(&mut transaction, new).await?;
    let mut frames = Vec::new();
    if let Some(title) = new.title.filter(|_| !has_title) {
        sqlx::query!("UPDATE sessions SET title = $2 WHERE id = $1", session, title)
            .execute(&mut *transaction)
            .await?;
        let event = NewEvent::new(&EventBody::titled(title.to_owned()));
        frames = append(&mut transaction, new.session_id, None, &[event]).await?;
    }
    transaction.commit().await?;
    Ok(Recorded::Stored(frames))
}

/// Inserts the record and adds its usage to the run and its session. Returns false if the run has
/// such a record, or does not exist.
async fn insert(conn: &mut PgConnection, new: &TitleRecord<'_>) -> Result<bool, StoreError> {
    let TitleRecord { session_id, run_id, attempt, request, .. } = new;
    let json = storable_json_of(request).map_err(unreadable("requests", "form"))?;
    let usage = request.usage;
    let done = sqlx::query_file!(
        "src/store/title_request.sql",
        session_id.as_uuid(),
        run_id.as_uuid(),
        i32::from(request.stop_reason.is_some()),
        usage.input_tokens,
        usage.cache_creation_input_tokens,
        usage.cache_read_input_tokens,
        usage.output_tokens,
        usage.cache_creation_1h_input_tokens,
        usage.thinking_tokens,
        usage.web_search_requests,
        usage.web_fetch_requests,
        request.cost,
        attempt,
        json,
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Adds the usage to the budgets of the owner. A statement of its own, after the insert: it sees a
/// budget that was set since the request began.
async fn spend(conn: &mut PgConnection, new: &TitleRecord<'_>) -> Result<(), StoreError> {
    sqlx::query!(
        "INSERT INTO reservations AS r (run_id, tenant_id, tokens, cost, spent_at)
         SELECT id, tenant_id, $2, $3, now() FROM runs
         WHERE id = $1 AND EXISTS (SELECT FROM budgets b WHERE b.tenant_id = runs.tenant_id)
         ON CONFLICT (run_id) DO UPDATE SET
             tokens = excluded.tokens + CASE WHEN r.spent_at IS NULL THEN 0 ELSE r.tokens END,
             cost = excluded.cost + CASE WHEN r.spent_at IS NULL THEN 0 ELSE r.cost END,
             spent_at = excluded.spent_at",
        new.run_id.as_uuid(),
        new.request.usage.total(),
        new.request.cost.unwrap_or(0),
    )
    .execute(conn)
    .await?;
    Ok(())
}
