//! Requests to the model, as records for inspection. Steps write them.

use jiff::SignedDuration;
use jiff_sqlx::Timestamp;
use serde::Deserialize;
use sqlx::PgConnection;

use super::messages::Line;
use super::{StoreError, files, sent_changes, unreadable};
use crate::domain::budget::MeasuredRequest;
use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::domain::page::Slice;
use crate::domain::prefix::PrefixHashes;
use crate::domain::request::{RequestForm, RequestRecord, StoredRequest};
use crate::domain::run_options::RunOptions;
use crate::domain::sent_history::SentView;
use crate::domain::session::Settings;

const TABLE: &str = "requests";

row_with_usage! {
    struct Row {
        n: i32,
        attempt: i32,
        model: String,
        message_seq: i32,
        form: String,
        body_hash: String,
        body_length: i64,
        prefix: Option<String>,
        attempts: String,
        stop_reason: Option<String>,
        error: Option<String>,
        usage_estimated: bool,
        duration_ms: i64,
        created_at: Timestamp,
    }
}

fn json<'a, T: Deserialize<'a>>(column: &'static str, text: &'a str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(unreadable(TABLE, column))
}

impl TryFrom<Row> for StoredRequest {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let ended_at = row.created_at.to_jiff();
        let took = SignedDuration::from_millis(row.duration_ms);
        Ok(Self {
            n: row.n,
            attempt: row.attempt,
            record: RequestRecord {
                model: row.model,
                message_seq: row.message_seq,
                form: json("form", &row.form)?,
                body_hash: row.body_hash,
                body_length: row.body_length,
                prefix: row.prefix.as_deref().map(|text| json("prefix", text)).transpose()?,
                attempts: json("attempts", &row.attempts)?,
                stop_reason: row.stop_reason,
                error: row.error.as_deref().map(|text| json("error", text)).transpose()?,
                usage: usage_of!(row),
                usage_estimated: row.usage_estimated,
                cost: row.cost,
                duration_ms: row.duration_ms,
            },
            started_at: ended_at.checked_sub(took).unwrap_or(ended_at),
            ended_at,
        })
    }
}

/// A selection of the requests of a run.
#[derive(Debug, Clone, Copy)]
pub struct RequestFilter {
    /// The owner.
    pub tenant: TenantId,
    /// The session.
    pub session_id: SessionId,
    /// The run.
    pub run_id: RunId,
    /// The page, by request number.
    pub slice: Slice<i32>,
}

/// Lists requests of a run, in their order.
pub async fn list(
    conn: &mut PgConnection,
    filter: RequestFilter,
) -> Result<Vec<StoredRequest>, StoreError> {
    let rows = query_with_usage!(
        Row,
        r#"SELECT n, attempt, model, message_seq, form::text AS "form!",
                  encode(body_hash, 'hex') AS "body_hash!", body_length, prefix::text,
                  attempts::text AS "attempts!", stop_reason, error::text, usage_estimated,
                  duration_ms,
                  created_at AS "created_at: Timestamp", "#
            + USAGE
            + "
           FROM requests
           WHERE session_id = $1 AND run_id = $2 AND tenant_id = $3
             AND ($4::int IS NULL OR CASE WHEN $5 THEN n > $4 ELSE n < $4 END)
           ORDER BY CASE WHEN $5 THEN n ELSE -n END
           LIMIT $6",
        filter.session_id.as_uuid(),
        filter.run_id.as_uuid(),
        filter.tenant.as_uuid(),
        filter.slice.from,
        filter.slice.is_upwards,
        filter.slice.limit,
    )
    .fetch_all(conn)
    .await?;
    filter.slice.in_order(rows).into_iter().map(StoredRequest::try_from).collect()
}

/// The sources of a request's body, besides the request's own form.
#[derive(Debug)]
pub struct RequestSources {
    /// The settings that the session pinned.
    pub settings: Settings,
    /// The options of the run.
    pub options: RunOptions,
    /// The messages of the history that the request contained.
    pub lines: Vec<Line>,
    /// The changes to these messages, including those that were made later.
    pub view: SentView,
}

/// Reads the sources of a request's body. They have not changed since.
pub async fn find_sources(
    conn: &mut PgConnection,
    session_id: SessionId,
    run_id: RunId,
    message_seq: i32,
    form: &RequestForm,
) -> Result<Option<RequestSources>, StoreError> {
    let row = sqlx::query!(
        r#"SELECT s.settings::text AS "settings!", r.options::text AS "options!"
           FROM runs r JOIN sessions s ON s.id = r.session_id
           WHERE r.id = $1 AND r.session_id = $2"#,
        run_id.as_uuid(),
        session_id.as_uuid(),
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let mut lines = sqlx::query_as!(
        Line,
        r#"SELECT seq AS "seq!", role AS "role!", content::text AS "content!"
           FROM history WHERE session_id = $1 AND seq <= $2 ORDER BY seq"#,
        session_id.as_uuid(),
        message_seq,
    )
    .fetch_all(&mut *conn)
    .await?;
    files::resolve(conn, lines.iter_mut().map(|line| &mut line.content).collect()).await?;
    let mut view = sent_changes::sent_state(&mut *conn, session_id).await?.view;
    view.compaction = match form.compacted {
        Some(up_to) => sent_changes::compaction(conn, session_id, up_to).await?,
        None => None,
    };
    Ok(Some(RequestSources {
        view,
        settings: serde_json::from_str(&row.settings)
            .map_err(unreadable("sessions", "settings"))?,
        options: serde_json::from_str(&row.options).map_err(unreadable("runs", "options"))?,
        lines,
    }))
}

/// The token count of a request as the model reported it, and the request's form.
#[derive(Debug)]
pub struct CountedRequest {
    /// The count.
    pub measured: MeasuredRequest,
    /// The form.
    pub form: RequestForm,
    /// Hashes of the body's prefix.
    pub prefix: Option<PrefixHashes>,
    /// The model's name.
    pub model: String,
}

/// Reads the token count of the newest answered request of a session, unless the count includes
/// other tries of the request.
pub async fn counted(
    conn: &mut PgConnection,
    session_id: SessionId,
) -> Result<Option<CountedRequest>, StoreError> {
    let row = sqlx::query!(
        r#"SELECT model, body_length, form::text AS "form!", prefix::text,
                  input_tokens + cache_creation_input_tokens + cache_read_input_tokens AS "tokens!"
           FROM requests
           WHERE session_id = $1 AND stop_reason IS NOT NULL AND NOT usage_estimated
             AND (form->>'summary') IS NULL AND (form->>'question') IS NULL
             AND (form->>'title') IS NULL
           ORDER BY run_id DESC, n DESC
           LIMIT 1"#,
        session_id.as_uuid(),
    )
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(CountedRequest {
        measured: MeasuredRequest { bytes: row.body_length, tokens: row.tokens },
        form: json("form", &row.form)?,
        prefix: row.prefix.as_deref().map(|text| json("prefix", text)).transpose()?,
        model: row.model,
    }))
}

/// Finds the last user message between `after` and `before` that ended an answered request: a
/// history up to that message fits into the model's context window.
pub async fn last_answered(
    conn: &mut PgConnection,
    session_id: SessionId,
    after: i32,
    before: i32,
) -> Result<Option<i32>, StoreError> {
    Ok(sqlx::query_scalar!(
        "SELECT message_seq FROM requests r
         WHERE session_id = $1 AND stop_reason IS NOT NULL AND (form->>'summary') IS NULL
           AND stop_reason <> 'model_context_window_exceeded'
           AND message_seq > $2 AND message_seq < $3
           AND EXISTS (SELECT FROM messages m
                       WHERE m.session_id = $1 AND m.seq = r.message_seq AND m.role = 'user')
         ORDER BY run_id DESC, n DESC
         LIMIT 1",
        session_id.as_uuid(),
        after,
        before,
    )
    .fetch_optional(conn)
    .await?)
}

/// Returns the size in bytes of the longest summary request that failed, among those for the
/// messages after `compacted`.
pub async fn failed_summary(
    conn: &mut PgConnection,
    session_id: SessionId,
    compacted: i32,
) -> Result<Option<i64>, StoreError> {
    Ok(sqlx::query_scalar!(
        "SELECT max(body_length) FROM requests
         WHERE session_id = $1 AND form->>'summary' = 'true' AND message_seq > $2 + 1",
        session_id.as_uuid(),
        compacted,
    )
    .fetch_one(conn)
    .await?)
}
