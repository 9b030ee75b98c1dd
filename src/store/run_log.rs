//! The calls of a run, as its result lists them.

use sqlx::PgConnection;

use super::sub_agents::list;
use super::{StoreError, unreadable};
use crate::domain::call_end::EndReason;
use crate::domain::ids::RunId;
use crate::domain::run_log::{self, LoggedCall, OUTPUT_FILE_MARK, RunLog};
use crate::domain::source::{Source, each_once};
use crate::domain::tool::CallState;
use crate::domain::tool_error::ToolErrorType;

/// Maximum number of calls that are listed for one run.
const MAX_LISTED: i64 = 1000;

/// Reads the calls of a run, in the order in which the model made them.
pub(super) async fn find(conn: &mut PgConnection, run_id: RunId) -> Result<RunLog, StoreError> {
    let rows = sqlx::query!(
        r#"(SELECT message_seq AS "message_seq!", position::int AS "position!",
                   tool_use_id AS "tool_use_id!", name AS "name!", state AS "state!", error_type,
                   sources::text, child_run_id, end_reason, NULL AS reply
            FROM tool_calls WHERE run_id = $1 ORDER BY message_seq, position LIMIT $2)
           UNION ALL
           -- Only sessions with a container have output files.
           SELECT m.seq, -1, '', '', '', NULL, NULL, NULL, NULL, m.content::text
           FROM runs r
                JOIN sessions s ON s.id = r.session_id AND s.code_container IS NOT NULL
                JOIN messages m ON m.session_id = s.id AND m.run_id = r.id
           WHERE r.id = $1 AND m.role = 'assistant' AND strpos(m.content::text, $3) > 0
           ORDER BY 1, 2"#,
        run_id.as_uuid(),
        MAX_LISTED,
        OUTPUT_FILE_MARK,
    )
    .fetch_all(&mut *conn)
    .await?;
    let has_sub_agents = rows.iter().any(|row| row.child_run_id.is_some());
    let (mut calls, mut sources) = (Vec::with_capacity(rows.len()), Vec::<Source>::new());
    let mut output_files = Vec::new();
    for row in rows {
        if let Some(reply) = &row.reply {
            output_files.extend(run_log::output_files(reply));
            continue;
        }
        let state = CallState::parse(&row.state)
            .ok_or_else(|| unreadable("tool_calls", "state")(&row.state))?;
        let is_error = state.is_error();
        let reason = row.end_reason.as_deref().and_then(EndReason::parse);
        let error_type = row.error_type.as_deref().and_then(ToolErrorType::parse);
        let (tool_use_id, name) = (row.tool_use_id, row.name);
        calls.push(LoggedCall { tool_use_id, name, state, is_error, reason, error_type });
        if let Some(text) = row.sources {
            let named: Vec<Source> =
                serde_json::from_str(&text).map_err(unreadable("tool_calls", "sources"))?;
            sources.extend(named);
        }
    }
    let sub_agents = if has_sub_agents { list(conn, run_id).await? } else { Vec::new() };
    let is_open = calls.iter().any(|call| call.state == CallState::Planned);
    let is_executing = is_open && is_held(conn, run_id).await?;
    let sources = each_once(sources);
    Ok(RunLog { calls, sources, output_files, sub_agents, is_executing })
}

/// Returns true if a worker holds the run and is not asked to stop.
async fn is_held(conn: &mut PgConnection, run_id: RunId) -> Result<bool, StoreError> {
    let is_held = sqlx::query_scalar!(
        r#"SELECT status = 'running' AND lease_owner IS NOT NULL AND lease_until > now()
                  AND cancel_requested_at IS NULL AS "is_held!"
           FROM runs WHERE id = $1"#,
        run_id.as_uuid(),
    )
    .fetch_optional(conn)
    .await?;
    Ok(is_held.unwrap_or(false))
}
