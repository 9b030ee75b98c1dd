//! What requests to the model used and cost: of a run, a session, a tenant.

use jiff::civil::Date;
use jiff_sqlx::ToSqlx as _;
use sqlx::PgConnection;
use uuid::Uuid;

use super::StoreError;
use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::domain::usage::{Spent, Usage};

/// What belongs to one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// A day, a model, or the id of a session or run; `deleted` for all sessions that are no more.
    pub key: String,
    /// What was used.
    pub spent: Spent,
}

/// By what a tenant's usage is grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupBy {
    /// Days by UTC.
    Day,
    /// The models that were asked.
    Model,
    /// Sessions.
    Session,
}

impl GroupBy {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Model => "model",
            Self::Session => "session",
        }
    }
}

/// Days by UTC, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Days {
    /// The first.
    pub from: Date,
    /// The last.
    pub to: Date,
}

struct Row {
    key: String,
    requests: i64,
    input_tokens: i64,
    cache_creation_input_tokens: i64,
    cache_read_input_tokens: i64,
    output_tokens: i64,
    cache_creation_1h_input_tokens: i64,
    thinking_tokens: i64,
    web_search_requests: i64,
    web_fetch_requests: i64,
    cost: Option<i64>,
}

impl From<Row> for Group {
    fn from(row: Row) -> Self {
        let usage = usage_of!(row);
        Self { key: row.key, spent: Spent { requests: row.requests, usage, cost: row.cost } }
    }
}

/// What a session's requests used so far.
pub async fn of_session(
    conn: &mut PgConnection,
    tenant: TenantId,
    session_id: SessionId,
) -> Result<Option<Spent>, StoreError> {
    let row = sqlx::query_as!(
        Row,
        r#"SELECT '' AS "key!", (SELECT coalesce(sum(model_requests), 0) FROM runs r
                                 WHERE r.session_id = s.id) AS "requests!",
                  input_tokens, cache_creation_input_tokens, cache_read_input_tokens,
                  output_tokens, cache_creation_1h_input_tokens, thinking_tokens,
                  web_search_requests, web_fetch_requests, cost
           FROM sessions s WHERE id = $1 AND tenant_id = $2"#,
        session_id.as_uuid(),
        tenant.as_uuid(),
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| Group::from(row).spent))
}

/// What a run's requests used so far; nothing if there is no such run.
pub async fn of_run(conn: &mut PgConnection, run_id: RunId) -> Result<Spent, StoreError> {
    let row = sqlx::query_as!(
        Row,
        r#"SELECT '' AS "key!", model_requests::bigint AS "requests!",
                  input_tokens, cache_creation_input_tokens, cache_read_input_tokens,
                  output_tokens, cache_creation_1h_input_tokens, thinking_tokens,
                  web_search_requests, web_fetch_requests, cost
           FROM runs WHERE id = $1"#,
        run_id.as_uuid(),
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| Group::from(row).spent).unwrap_or_default())
}

/// What those requests of a run used with which tools asked the model.
pub async fn used_by_tools(
    conn: &mut PgConnection,
    session_id: SessionId,
    run_id: RunId,
) -> Result<Usage, StoreError> {
    let row = sqlx::query_as!(
        Row,
        r#"SELECT '' AS "key!", count(*) AS "requests!",
                  coalesce(sum(input_tokens), 0)::bigint AS "input_tokens!",
                  coalesce(sum(cache_creation_input_tokens), 0)::bigint
                      AS "cache_creation_input_tokens!",
                  coalesce(sum(cache_read_input_tokens), 0)::bigint AS "cache_read_input_tokens!",
                  coalesce(sum(output_tokens), 0)::bigint AS "output_tokens!",
                  coalesce(sum(cache_creation_1h_input_tokens), 0)::bigint
                      AS "cache_creation_1h_input_tokens!",
                  coalesce(sum(thinking_tokens), 0)::bigint AS "thinking_tokens!",
                  coalesce(sum(web_search_requests), 0)::bigint AS "web_search_requests!",
                  coalesce(sum(web_fetch_requests), 0)::bigint AS "web_fetch_requests!",
                  sum(cost)::bigint AS cost
           FROM requests
           WHERE session_id = $1 AND run_id = $2 AND (form->>'question') IS NOT NULL"#,
        session_id.as_uuid(),
        run_id.as_uuid(),
    )
    .fetch_one(conn)
    .await?;
    Ok(Group::from(row).spent.usage)
}

/// Lists what the runs of a session used, oldest first, from after a run on that was accepted by
/// this event. Each comes with the number of its own event.
pub async fn list_runs(
    conn: &mut PgConnection,
    session_id: SessionId,
    after: i64,
    limit: i64,
) -> Result<Vec<(RunId, i64, Spent)>, StoreError> {
    let rows = sqlx::query!(
        r#"SELECT id, accepted_seq, model_requests, input_tokens, cache_creation_input_tokens,
                  cache_read_input_tokens, output_tokens, cache_creation_1h_input_tokens,
                  thinking_tokens, web_search_requests, web_fetch_requests, cost
           FROM runs WHERE session_id = $1 AND accepted_seq > $2
           ORDER BY accepted_seq
           LIMIT $3"#,
        session_id.as_uuid(),
        after,
        limit,
    )
    .fetch_all(conn)
    .await?;
    let spent = rows.into_iter().map(|row| {
        let usage = usage_of!(row);
        let spent = Spent { requests: row.model_requests.into(), usage, cost: row.cost };
        (row.id.into(), row.accepted_seq, spent)
    });
    Ok(spent.collect())
}

/// Which requests of a tenant to add up, and how.
#[derive(Debug, Clone, Copy)]
pub struct Selection<'a> {
    /// The owner.
    pub tenant: TenantId,
    /// Only those of this session.
    pub session_id: Option<SessionId>,
    /// Only those of these days.
    pub days: Option<Days>,
    /// By what they are grouped; none for one group of all.
    pub by: Option<GroupBy>,
    /// Only keys greater than this.
    pub after: Option<&'a str>,
    /// At most so many groups.
    pub limit: i64,
}

/// Adds up requests by group, in the order of the keys.
pub async fn list(
    conn: &mut PgConnection,
    selection: Selection<'_>,
) -> Result<Vec<Group>, StoreError> {
    let Selection { tenant, session_id, days, by, after, limit } = selection;
    let rows = sqlx::query_as!(
        Row,
        r#"SELECT key AS "key!", sum(requests)::bigint AS "requests!",
                  sum(input_tokens)::bigint AS "input_tokens!",
                  sum(cache_creation_input_tokens)::bigint AS "cache_creation_input_tokens!",
                  sum(cache_read_input_tokens)::bigint AS "cache_read_input_tokens!",
                  sum(output_tokens)::bigint AS "output_tokens!",
                  sum(cache_creation_1h_input_tokens)::bigint AS "cache_creation_1h_input_tokens!",
                  sum(thinking_tokens)::bigint AS "thinking_tokens!",
                  sum(web_search_requests)::bigint AS "web_search_requests!",
                  sum(web_fetch_requests)::bigint AS "web_fetch_requests!",
                  sum(cost)::bigint AS cost
           FROM (SELECT CASE $5::text
                            WHEN 'day' THEN to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD')
                            WHEN 'model' THEN model
                            WHEN 'session' THEN session_id::text
                            ELSE '' END COLLATE "C" AS key,
                        CASE WHEN stop_reason IS NULL THEN 0 ELSE 1 END AS requests,
                        input_tokens, cache_creation_input_tokens, cache_read_input_tokens,
                        output_tokens, cache_creation_1h_input_tokens, thinking_tokens,
                        web_search_requests, web_fetch_requests, cost
                 FROM requests
                 WHERE tenant_id = $1
                   AND ($2::uuid IS NULL OR session_id = $2)
                   AND ($3::date IS NULL OR created_at >= $3::date::timestamp AT TIME ZONE 'UTC')
                   AND ($4::date IS NULL
                        OR created_at < ($4::date + 1)::timestamp AT TIME ZONE 'UTC')
                 UNION ALL
                 SELECT CASE $5::text
                            WHEN 'day' THEN to_char(day, 'YYYY-MM-DD')
                            WHEN 'model' THEN model
                            WHEN 'session' THEN 'deleted'
                            ELSE '' END COLLATE "C",
                        requests, input_tokens, cache_creation_input_tokens,
                        cache_read_input_tokens, output_tokens, cache_creation_1h_input_tokens,
                        thinking_tokens, web_search_requests, web_fetch_requests, cost
                 FROM deleted_usage
                 WHERE tenant_id = $1 AND $2::uuid IS NULL
                   AND ($3::date IS NULL OR day >= $3) AND ($4::date IS NULL OR day <= $4)) r
           WHERE $6::text IS NULL OR key > $6
           GROUP BY key
           ORDER BY key
           LIMIT $7"#,
        tenant.as_uuid(),
        session_id.map(SessionId::as_uuid),
        days.map(|days| days.from.to_sqlx()) as _,
        days.map(|days| days.to.to_sqlx()) as _,
        by.map(GroupBy::as_str),
        after,
        limit,
    )
    .fetch_all(conn)
    .await?;
    let groups = rows.into_iter().map(Group::from);
    let is_by_session = by == Some(GroupBy::Session);
    Ok(groups.map(|group| if is_by_session { with_session_id(group) } else { group }).collect())
}

/// Sessions have another form in the database.
fn with_session_id(group: Group) -> Group {
    match group.key.parse::<Uuid>() {
        Ok(id) => Group { key: SessionId::from(id).to_string(), ..group },
        Err(_) => group,
    }
}
