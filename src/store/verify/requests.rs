//! Checks of recorded requests against the counters of their runs.

use std::collections::HashMap;

use futures::TryStreamExt as _;
use sqlx::PgConnection;

use super::facts::{Facts, RunFacts};
use super::report::Report;
use super::runs::tokens;
use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::domain::usage::Usage;
use crate::domain::verification::Invariant;
use crate::store::StoreError;

/// The sum of one run's requests.
#[derive(Debug)]
pub(super) struct RequestFacts {
    has_tenant: bool,
    count: i64,
    newest: i32,
    answered: i64,
    usage: Usage,
    cost: Option<i64>,
    /// The answered requests that no event reports, because the run had settled before them, and what
    /// such requests used.
    pub(super) unreported: (i64, Usage),
}

impl Default for RequestFacts {
    fn default() -> Self {
        Self {
            has_tenant: true,
            count: 0,
            newest: 0,
            answered: 0,
            usage: Usage::default(),
            cost: None,
            unreported: (0, Usage::default()),
        }
    }
}

pub(super) async fn read(
    conn: &mut PgConnection,
    id: SessionId,
    tenant: TenantId,
) -> Result<HashMap<RunId, RequestFacts>, StoreError> {
    let mut rows = query_with_usage!(
        _,
        r#"SELECT run_id, count(*) AS "count!", max(n) AS "newest!",
                  count(stop_reason) AS "answered!", bool_and(tenant_id = $2) AS "has_tenant!",
                  (form ->> 'title') IS NOT NULL AS "is_for_title!", "#
            + SUMS
            + " FROM requests WHERE session_id = $1
                GROUP BY run_id, (form ->> 'title') IS NOT NULL",
        id.as_uuid(),
        tenant.as_uuid(),
    )
    .fetch(conn);
    let mut requests: HashMap<RunId, RequestFacts> = HashMap::new();
    while let Some(row) = rows.try_next().await? {
        let usage = usage_of!(row);
        let facts = requests.entry(row.run_id.into()).or_default();
        facts.has_tenant &= row.has_tenant;
        facts.count += row.count;
        facts.newest = facts.newest.max(row.newest);
        facts.answered += row.answered;
        facts.usage += usage;
        facts.cost = row.cost.map_or(facts.cost, |cost| Some(facts.cost.unwrap_or(0) + cost));
        if row.is_for_title {
            facts.unreported = (row.answered, usage);
        }
    }
    Ok(requests)
}

pub(super) fn check(facts: &Facts, report: &mut Report) {
    for run in facts.runs.iter() {
        let nothing = RequestFacts::default();
        of_run(run, facts.requests.get(&run.id).unwrap_or(&nothing), report);
    }
    if let Some(id) = facts.requests.keys().find(|id| facts.runs.find(**id).is_none()) {
        let detail = "a request belongs to no run of the session";
        report.add(Invariant::CountersAgree, report.session().run(*id), detail);
    }
}

fn of_run(run: &RunFacts, requests: &RequestFacts, report: &mut Report) {
    let place = report.session().run(run.id);
    if !requests.has_tenant {
        let detail = "a request belongs to another tenant";
        report.add(Invariant::TenantsAgree, place.clone(), detail);
    }
    let newest = run.last_request;
    if requests.newest != newest || requests.count != i64::from(newest) {
        let detail = format!("the run counts {newest} requests, but has {}", requests.count);
        report.add(Invariant::CountersAgree, place.clone(), detail);
    }
    // The first requests of a run may be older than the table.
    if requests.answered != i64::from(run.model_requests) {
        return;
    }
    for (what, stored, counted) in [
        ("tokens", tokens(run.usage), tokens(requests.usage)),
        ("cost", cost(run.cost), cost(requests.cost)),
    ] {
        if stored != counted {
            let detail = format!("{what}: the run has {stored}, its requests have {counted}");
            report.add(Invariant::CountersAgree, place.clone(), detail);
        }
    }
}

/// Formats a cost.
pub(super) fn cost(cost: Option<i64>) -> String {
    cost.map_or("unknown".to_owned(), |cost| format!("{cost} micro-dollars"))
}
