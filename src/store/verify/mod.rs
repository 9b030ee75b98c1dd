//! Verification of a session: its history is valid for the model, and ledger, events and counters
//! agree with it. Read-only; takes no lock that a writer waits for.

mod body;
mod events;
mod facts;
mod history;
mod ledger;
mod orphans;
mod parts;
mod read;
mod report;
mod requests;
mod runs;

use sqlx::{Connection as _, PgConnection};

use super::StoreError;
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::verification::{Checked, Invariant, Location, Verification};
use facts::Facts;
use report::Report;

pub use orphans::{NamedSessions, check_named_sessions};

pub(super) const SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// Verifies a session in its current state. Returns `None` if it does not exist, or does not belong
/// to the named tenant. The connection must not be in a transaction: all rows are read in one
/// snapshot.
pub async fn session(
    conn: &mut PgConnection,
    tenant: Option<TenantId>,
    id: SessionId,
) -> Result<Option<Verification>, StoreError> {
    let mut snapshot = conn.begin_with(SNAPSHOT).await?;
    let verification = within(&mut snapshot, tenant, id).await?;
    snapshot.commit().await?;
    Ok(verification)
}

/// Verifies a session in the snapshot of a transaction that began with [`SNAPSHOT`].
pub(super) async fn within(
    conn: &mut PgConnection,
    tenant: Option<TenantId>,
    id: SessionId,
) -> Result<Option<Verification>, StoreError> {
    Ok(read::facts(conn, tenant, id).await?.as_ref().map(check))
}

/// Lists the next sessions in the order of their IDs, to verify all of them.
pub async fn list_sessions(
    conn: &mut PgConnection,
    after: Option<SessionId>,
    limit: i64,
) -> Result<Vec<SessionId>, StoreError> {
    let ids = sqlx::query_scalar!(
        "SELECT id FROM sessions WHERE $1::uuid IS NULL OR id > $1 ORDER BY id LIMIT $2",
        after.map(SessionId::as_uuid),
        limit,
    )
    .fetch_all(conn)
    .await?;
    Ok(ids.into_iter().map(SessionId::from).collect())
}

fn check(facts: &Facts) -> Verification {
    let session_id = facts.session.id;
    let mut report = Report::new(Location::of(session_id));
    check_reading(facts, &mut report);
    history::check(facts, &mut report);
    runs::check(facts, &mut report);
    requests::check(facts, &mut report);
    ledger::check(facts, &mut report);
    events::check(facts, &mut report);
    let checked = Checked {
        messages: facts.messages.len(),
        runs: facts.runs.len(),
        calls: facts.calls.len(),
        events: facts.events.len(),
    };
    Verification { session_id, findings: report.findings, checked }
}

/// Reports unreadable columns, and rows of another tenant.
fn check_reading(facts: &Facts, report: &mut Report) {
    let at = report.session();
    let session = facts.session.unreadable.iter().map(|cause| (at.clone(), cause));
    let runs = facts.runs.iter().flat_map(|run| {
        let place = at.clone().run(run.id);
        run.unreadable.iter().map(move |cause| (place.clone(), cause))
    });
    let messages = facts.messages.iter().flat_map(|message| {
        let place = at.clone().run(message.run_id).message(message.seq);
        message.unreadable.iter().map(move |cause| (place.clone(), cause))
    });
    for (place, cause) in session.chain(runs).chain(messages) {
        report.add(Invariant::Readable, place, cause);
    }
    let runs = facts.runs.iter().map(|run| (run.has_tenant, at.clone().run(run.id)));
    let messages = facts.messages.iter().map(|row| (row.has_tenant, at.clone().message(row.seq)));
    let calls = facts
        .calls
        .iter()
        .map(|row| (row.has_tenant, at.clone().message(row.message_seq).call(&row.tool_use_id)));
    let events = facts.events.iter().map(|row| (row.has_tenant, at.clone().event(row.seq)));
    for (has_tenant, place) in runs.chain(messages).chain(calls).chain(events) {
        if !has_tenant {
            report.add(Invariant::TenantsAgree, place, "the row belongs to another tenant");
        }
    }
}
