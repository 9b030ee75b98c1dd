//! Defects that the crash test injects to check that it detects them. Only in builds with the
//! feature `faults`.

use jiff_sqlx::ToSqlx as _;
use sqlx::PgConnection;
use uuid::Uuid;

use super::StoreError;
use super::step::{self, Committed, StepCommit};
use crate::domain::claim::Fence;
use crate::domain::ids::SessionId;
use crate::domain::tool::ToolCall;
use crate::faults::{self, Bug, Point};

/// [`step::commit`] with the injected defects.
pub(crate) async fn commit(
    conn: &mut PgConnection,
    session_id: SessionId,
    fence: Fence,
    steps: i32,
    step: &StepCommit<'_>,
) -> Result<Option<Committed>, StoreError> {
    let unchecked = if faults::has(Bug::NoAttemptCheck) { now(conn, fence).await? } else { None };
    let (fence, steps) = unchecked.unwrap_or((fence, steps));
    if !faults::has(Bug::SplitCommit) || step.planned.is_empty() {
        return step::commit(conn, session_id, fence, steps, step).await;
    }
    let first = StepCommit { planned: &[], ..*step };
    let committed = step::commit(conn, session_id, fence, steps, &first).await?;
    faults::point(Point::StepSplit).await;
    plan_late(conn, session_id, step.planned).await?;
    Ok(committed)
}

/// No attempt check: the write uses the run's current attempt, owner and step number.
async fn now(conn: &mut PgConnection, fence: Fence) -> Result<Option<(Fence, i32)>, StoreError> {
    let run = sqlx::query_as(
        "SELECT attempt, lease_owner, steps FROM runs WHERE id = $1 AND lease_owner IS NOT NULL",
    );
    let run: Option<(i32, Uuid, i32)> =
        run.bind(fence.run_id.as_uuid()).fetch_optional(conn).await?;
    Ok(run.map(|(attempt, owner, steps)| (Fence { attempt, worker: owner.into(), ..fence }, steps)))
}

/// Two commits in place of one: the second one.
async fn plan_late(
    conn: &mut PgConnection,
    session_id: SessionId,
    planned: &[ToolCall],
) -> Result<(), StoreError> {
    let ids: Vec<&str> = planned.iter().map(|call| call.tool_use_id.as_str()).collect();
    let names: Vec<&str> = planned.iter().map(|call| call.name.as_str()).collect();
    let insert = sqlx::query(
        "INSERT INTO tool_calls (session_id, message_seq, tool_use_id, tenant_id, run_id, position, name)
         SELECT m.session_id, m.seq, c.id, m.tenant_id, m.run_id, c.ord, c.name
         FROM (SELECT * FROM messages WHERE session_id = $1 ORDER BY seq DESC LIMIT 1) m,
              unnest($2::text[], $3::text[]) WITH ORDINALITY AS c (id, name, ord)",
    );
    insert.bind(session_id.as_uuid()).bind(ids).bind(names).execute(conn).await?;
    Ok(())
}

/// The clock of the process: expires leases by it.
pub(crate) async fn expire_by_process_clock(conn: &mut PgConnection) -> Result<(), StoreError> {
    if !faults::has(Bug::ProcessClock) {
        return Ok(());
    }
    let now = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(faults::clock_skew());
    let expire = sqlx::query(
        "UPDATE runs SET lease_until = now() - interval '1 second'
         WHERE status = 'running' AND lease_until < $1",
    );
    expire.bind(now.to_sqlx()).execute(conn).await?;
    Ok(())
}
