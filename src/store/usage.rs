//! Usage and cost of requests to the model: of a run, a session, a tenant.

use jiff::civil::Date;
use jiff_sqlx::ToSqlx as _;
use sqlx::PgConnection;
use uuid::Uuid;

use super::StoreError;
use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::domain::usage::{Spending, Usage};

/// The usage of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// A day, a model, or the ID of a session or run; `deleted` for all deleted sessions together.
    pub key: String,
    /// Usage and cost.
    pub spent: Spending,
}

/// The key by which a tenant's usage is grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupBy {
    /// UTC days.
    Day,
    /// Models.
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

/// A range of UTC days, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Days {
    /// The first day.
    pub from: Date,
    /// The last day.
    pub to: Date,
}

row_with_usage! {
    struct Row {
        key: String,
        requests: i64,
    }
}

impl From<Row> for Group {
    fn from(row: Row) -> Self {
        let usage = usage_of!(row);
        Self { key: row.key, spent: Spending { requests: row.requests, usage, cost: row.cost } }
    }
}

/// Returns the usage of a session so far.
pub async fn of_session(
    conn: &mut PgConnection,
    tenant: TenantId,
    session_id: SessionId,
) -> Result<Option<Spending>, StoreError> {
    let row = query_with_usage!(
        Row,
        r#"SELECT '' AS "key!", (SELECT coalesce(sum(model_requests), 0) FROM runs r
                                 WHERE r.session_id = s.id) AS "requests!", "#
            + USAGE
            + " FROM sessions s WHERE id = $1 AND tenant_id = $2",
        session_id.as_uuid(),
        tenant.as_uuid(),
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| Group::from(row).spent))
}

/// Returns the usage of a run so far; zero if there is no such run.
pub async fn of_run(conn: &mut PgConnection, run_id: RunId) -> Result<Spending, StoreError> {
    let row = query_with_usage!(
        Row,
        r#"SELECT '' AS "key!", model_requests::bigint AS "requests!", "#
            + USAGE
            + " FROM runs WHERE id = $1",
        run_id.as_uuid(),
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| Group::from(row).spent).unwrap_or_default())
}

/// Returns the usage of a run's requests that no message shows: those that tools made (sampling), and
/// those of the loop that had no reply.
pub async fn not_in_messages(
    conn: &mut PgConnection,
    session_id: SessionId,
    run_id: RunId,
) -> Result<Usage, StoreError> {
    let row = query_with_usage!(
        Row,
        r#"SELECT '' AS "key!", count(*) AS "requests!", "#
            + SUMS
            + " FROM requests
                WHERE session_id = $1 AND run_id = $2
                  AND ((form->>'question') IS NOT NULL
                       OR stop_reason IS NULL AND (form->>'summary') IS NULL)",
        session_id.as_uuid(),
        run_id.as_uuid(),
    )
    .fetch_one(conn)
    .await?;
    Ok(Group::from(row).spent.usage)
}

/// The usage of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunUsage {
    /// The run.
    pub run_id: RunId,
    /// The number of the event that accepted it.
    pub accepted_seq: i64,
    /// Usage and cost.
    pub spent: Spending,
}

/// Lists the usage of a session's runs, oldest first, starting after the run that was accepted by
/// the event `after`.
pub async fn list_runs(
    conn: &mut PgConnection,
    session_id: SessionId,
    after: i64,
    limit: i64,
) -> Result<Vec<RunUsage>, StoreError> {
    let rows = query_with_usage!(
        _,
        "SELECT id, accepted_seq, model_requests, "
            + USAGE
            + " FROM runs WHERE session_id = $1 AND accepted_seq > $2
                ORDER BY accepted_seq
                LIMIT $3",
        session_id.as_uuid(),
        after,
        limit,
    )
    .fetch_all(conn)
    .await?;
    let runs = rows.into_iter().map(|row| {
        let usage = usage_of!(row);
        let spent = Spending { requests: row.model_requests.into(), usage, cost: row.cost };
        RunUsage { run_id: row.id.into(), accepted_seq: row.accepted_seq, spent }
    });
    Ok(runs.collect())
}

/// A selection of a tenant's requests, and its grouping.
#[derive(Debug, Clone, Copy)]
pub struct UsageSelection<'a> {
    /// The owner.
    pub tenant: TenantId,
    /// Only requests of this session.
    pub session_id: Option<SessionId>,
    /// Only requests of these days.
    pub days: Option<Days>,
    /// The key of the groups; `None` for a single group.
    pub by: Option<GroupBy>,
    /// Only keys greater than this.
    pub after: Option<&'a str>,
    /// Maximum number of groups.
    pub limit: i64,
}

/// Sums up requests by group, in the order of the keys.
pub async fn list(
    conn: &mut PgConnection,
    selection: UsageSelection<'_>,
) -> Result<Vec<Group>, StoreError> {
    let UsageSelection { tenant, session_id, days, by, after, limit } = selection;
    let rows = query_with_usage!(
        Row,
        r#"SELECT key AS "key!", sum(requests)::bigint AS "requests!", "#
            + SUMS
            + r#"
           FROM (SELECT CASE $5::text
                            WHEN 'day' THEN to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD')
                            WHEN 'model' THEN model
                            WHEN 'session' THEN session_id::text
                            ELSE '' END COLLATE "C" AS key,
                        CASE WHEN stop_reason IS NULL THEN 0 ELSE 1 END AS requests, "#
            + USAGE
            + r#"
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
                        requests, "#
            + USAGE
            + "
                 FROM deleted_usage
                 WHERE tenant_id = $1 AND $2::uuid IS NULL
                   AND ($3::date IS NULL OR day >= $3) AND ($4::date IS NULL OR day <= $4)) r
           WHERE $6::text IS NULL OR key > $6
           GROUP BY key
           ORDER BY key
           LIMIT $7",
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

/// Session IDs have another form in the database.
fn with_session_id(group: Group) -> Group {
    match group.key.parse::<Uuid>() {
        Ok(id) => Group { key: SessionId::from(id).to_string(), ..group },
        Err(_) => group,
    }
}
