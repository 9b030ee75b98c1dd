//! Listing and filtering of a tenant's sessions.

use jiff_sqlx::{Timestamp, ToSqlx};
use sqlx::PgConnection;
use uuid::Uuid;

use super::StoreError;
use super::sessions::select;
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::page::Slice;
use crate::domain::session::Session;
use crate::domain::session_filter::{SessionFilter, SessionState};

/// Selects the IDs of a page of sessions. Active sessions are few among the idle ones, so they are
/// found by their runs.
macro_rules! ids {
    ($from:literal, $($arg:expr),+) => {
        sqlx::query_scalar!(
            $from
            + "
WHERE s.tenant_id = $1
  AND ($2::uuid IS NULL OR CASE WHEN $3 THEN s.id > $2 ELSE s.id < $2 END)
  AND ($5::bool IS NULL OR (s.archived_at IS NOT NULL) = $5)
  AND CASE $6::text
      WHEN 'running' THEN s.active_run_id IS NOT NULL AND s.id = ANY (ARRAY(
          SELECT session_id FROM runs WHERE lease_until IS NOT NULL AND tenant_id = $1))
      WHEN 'requires_action' THEN s.active_run_id IS NOT NULL AND s.id = ANY (ARRAY(
          SELECT session_id FROM runs WHERE status = 'requires_action' AND tenant_id = $1))
      WHEN 'queued' THEN s.active_run_id IS NULL AND s.queued > 0 AND s.id = ANY (ARRAY(
          SELECT session_id FROM runs WHERE status = 'queued' AND tenant_id = $1
          UNION SELECT session_id FROM runs WHERE lease_until IS NOT NULL AND tenant_id = $1))
      WHEN 'idle' THEN s.active_run_id IS NULL AND s.queued = 0 OR EXISTS (
          SELECT FROM runs r WHERE r.id = s.active_run_id AND r.status = 'requires_action')
      WHEN 'busy' THEN s.id = ANY (ARRAY(
          SELECT session_id FROM runs WHERE status = 'queued' AND tenant_id = $1
          UNION SELECT session_id FROM runs WHERE lease_until IS NOT NULL AND tenant_id = $1))
          AND NOT EXISTS (
          SELECT FROM runs r WHERE r.id = s.active_run_id AND r.status = 'requires_action')
      ELSE true END
  AND ($7::bigint[] = '{}' OR s.metadata_terms @> $7)
  AND ($10::uuid[] IS NULL OR s.id = ANY ($10))
  AND ($8::timestamptz IS NULL OR s.created_at > $8)
  AND ($9::timestamptz IS NULL OR s.created_at < $9)
  AND CASE WHEN $11::uuid IS NULL THEN s.parent_session_id IS NULL
           ELSE s.parent_session_id = $11 END
  AND ($12::text IS NULL OR s.external_id = $12)
  AND ($13::text IS NULL OR s.user_name = $13)
  AND ($14::text IS NULL OR s.settings #>> '{agent,name}' = $14)
  AND ($15::int IS NULL OR s.settings #>> '{agent,version}' = $15::text)
ORDER BY CASE WHEN $3 THEN s.id END, CASE WHEN NOT $3 THEN s.id END DESC
LIMIT $4",
            $($arg),+
        )
    };
}

/// Lists sessions of a tenant, in the order of their IDs, which is the order of creation. For the
/// rest of the caller's transaction, statements are planned for their actual parameters.
pub async fn list(
    conn: &mut PgConnection,
    tenant: TenantId,
    filter: &SessionFilter,
    slice: Slice<SessionId>,
) -> Result<Vec<Session>, StoreError> {
    let Plan { terms, candidates } = plan(conn, &filter.metadata).await?;
    let tenant_id = tenant.as_uuid();
    let from = slice.from.map(SessionId::as_uuid);
    let parent = filter.parent.map(SessionId::as_uuid);
    let state = filter.state.map(SessionState::as_str);
    let [after, before] =
        [filter.created_after, filter.created_before].map(|moment| moment.map(ToSqlx::to_sqlx));
    let ids = match &filter.words {
        None => {
            ids!(
                "SELECT s.id FROM sessions s",
                tenant_id,
                from,
                slice.is_upwards,
                slice.limit,
                filter.archived,
                state,
                &terms,
                after as Option<Timestamp>,
                before as Option<Timestamp>,
                candidates.as_deref(),
                parent,
                filter.external_id.as_deref(),
                filter.user.as_deref(),
                filter.agent.as_deref(),
                filter.agent_version
            )
            .fetch_all(&mut *conn)
            .await?
        }
        Some(words) => {
            ids!(
                "
SELECT s.id FROM sessions_with_words($16) AS found (id) JOIN sessions s ON s.id = found.id",
                tenant_id,
                from,
                slice.is_upwards,
                slice.limit,
                filter.archived,
                state,
                &terms,
                after as Option<Timestamp>,
                before as Option<Timestamp>,
                candidates.as_deref(),
                parent,
                filter.external_id.as_deref(),
                filter.user.as_deref(),
                filter.agent.as_deref(),
                filter.agent_version,
                words
            )
            .fetch_all(&mut *conn)
            .await?
        }
    };
    select(conn, tenant, &ids).await
}

/// The lookup of metadata.
struct Plan {
    terms: Vec<i64>,
    /// The sessions that have all of these terms, if they are few enough to be listed.
    candidates: Option<Vec<Uuid>>,
}

/// Disables generic plans, because one plan for all filters is good for none of them, and looks up
/// the metadata. Row-level security keeps a query from using an index on metadata.
async fn plan(conn: &mut PgConnection, metadata: &[(String, String)]) -> Result<Plan, StoreError> {
    let (keys, values): (Vec<String>, Vec<String>) = metadata.iter().cloned().unzip();
    let row = sqlx::query!(
        r#"SELECT set_config('plan_cache_mode', 'force_custom_plan', true) AS mode,
                  terms AS "terms!",
                  CASE WHEN terms <> '{}' THEN sessions_with_terms(terms) END AS candidates
           FROM (SELECT ARRAY(SELECT metadata_term(key, value)
                              FROM unnest($1::text[], $2::text[]) AS member (key, value)))
               AS looked (terms)"#,
        &keys,
        &values,
    )
    .fetch_one(conn)
    .await?;
    Ok(Plan { terms: row.terms, candidates: row.candidates })
}
