//! Checks of runs and of the session's counters.

use std::collections::{HashMap, HashSet};

use super::body::Body;
use super::facts::{CallFacts, Facts, RunFacts};
use super::report::Report;
use super::requests::cost;
use crate::domain::ids::RunId;
use crate::domain::run_status::RunStatus;
use crate::domain::usage::Usage;
use crate::domain::verification::Invariant;

pub(super) fn check(facts: &Facts, report: &mut Report) {
    for run in facts.runs.iter() {
        state(run, report);
    }
    let live: Vec<&RunFacts> = facts.runs.iter().filter(|run| run.is_live()).collect();
    if live.len() > 1 {
        let ids: Vec<String> = live.iter().map(|run| run.id.to_string()).collect();
        let detail = format!("the runs {} are live at the same time", ids.join(" and "));
        report.add(Invariant::OneLiveRun, report.session(), detail);
    }
    for run in live.iter().filter(|run| run.status == Some(RunStatus::RequiresAction)) {
        waits(facts, run, report);
    }
    counters(facts, &live, report);
    requests(facts, report);
}

fn state(run: &RunFacts, report: &mut Report) {
    let place = report.session().run(run.id);
    let Some(status) = run.status else { return };
    let is_running = status == RunStatus::Running;
    let word = status.as_str();
    for (is_wrong, detail) in [
        (run.has_lease != is_running, format!("the run is {word}, which contradicts its lease")),
        (
            run.wake.is_some() != (status == RunStatus::RequiresAction),
            format!("the run is {word}, which contradicts its wake-up time"),
        ),
        (
            run.has_reservation && !is_running,
            format!("the run is {word}, but has a budget reservation"),
        ),
        (
            run.has_finished != status.is_terminal(),
            format!("the run is {word}, which contradicts its end time"),
        ),
        (
            run.has_outcome != status.is_terminal(),
            format!("the run is {word}, which contradicts its outcome"),
        ),
    ] {
        if is_wrong {
            report.add(Invariant::RunStateWhole, place.clone(), detail);
        }
    }
    if let Some(at) = run.abandoned_at.filter(|_| is_running) {
        let detail = format!("the lease expired at {at:.6}, but no worker took the run over");
        report.add(Invariant::LeaseRenewed, place, detail);
    }
}

/// A waiting run that is not due has a call that awaits an answer.
fn waits(facts: &Facts, run: &RunFacts, report: &mut Report) {
    let Some((wake_at, is_forgotten)) = run.wake else { return };
    let place = report.session().run(run.id);
    if is_forgotten {
        let detail = format!("the run was due at {wake_at:.6}, but no worker claimed it");
        return report.add(Invariant::WaitsEnd, place, detail);
    }
    let is_open = |call: &&CallFacts| {
        call.run_id == run.id && call.awaits.is_some_and(|(_, is_undecided)| is_undecided)
    };
    if facts.now < wake_at && facts.calls.iter().find(is_open).is_none() {
        let detail =
            format!("the run waits until {wake_at:.6}, but none of its calls awaits an answer");
        report.add(Invariant::WaitsEnd, place, detail);
    }
}

/// A claimed run counts as queued until its message enters the history.
fn counters(facts: &Facts, live: &[&RunFacts], report: &mut Report) {
    let begun: HashSet<RunId> = facts.messages.iter().map(|message| message.run_id).collect();
    let has_begun = |run: &&&RunFacts| begun.contains(&run.id);
    let waits = |run: &&RunFacts| {
        run.status == Some(RunStatus::Queued) || run.is_live() && !begun.contains(&run.id)
    };
    let queued = facts.runs.iter().filter(waits).count();
    let active = live.iter().find(has_begun).map(|run| run.id);
    let session = &facts.session;
    let name = |id: Option<RunId>| id.map_or("none".to_owned(), |id| id.to_string());
    let (mut usage, mut spent) = (Usage::default(), None);
    for run in facts.runs.iter() {
        usage += run.usage;
        spent = run.cost.map_or(spent, |cost| Some(spent.unwrap_or(0) + cost));
    }
    for (what, stored, counted) in [
        ("queued runs", session.queued.to_string(), queued.to_string()),
        ("active run", name(session.active_run_id), name(active)),
        ("messages", session.last_message_seq.to_string(), facts.messages.len().to_string()),
        ("tokens", tokens(session.usage), tokens(usage)),
        ("cost", cost(session.cost), cost(spent)),
    ] {
        if stored != counted {
            let detail = format!("{what}: the session has {stored}, its rows have {counted}");
            report.add(Invariant::CountersAgree, report.session(), detail);
        }
    }
}

/// Formats usage in the form of the API.
pub(super) fn tokens(usage: Usage) -> String {
    serde_json::to_string(&usage).unwrap_or_default()
}

/// The requests and tokens of each run equal those that its events report, besides a request for a
/// title.
fn requests(facts: &Facts, report: &mut Report) {
    let unreported = facts.requests.iter().map(|(id, requests)| (*id, requests.unreported));
    let mut reported: HashMap<RunId, (i64, Usage)> = unreported.collect();
    for event in &facts.events {
        if let (Some(run_id), Body::RequestEnd { usage, is_error }) = (event.run_id, &event.body) {
            let (requests, sum) = reported.entry(run_id).or_default();
            *requests += i64::from(!is_error);
            *sum += *usage;
        }
    }
    for run in facts.runs.iter() {
        let (requests, usage) = reported.get(&run.id).copied().unwrap_or_default();
        for (what, stored, counted) in [
            ("requests", run.model_requests.to_string(), requests.to_string()),
            ("tokens", tokens(run.usage), tokens(usage)),
        ] {
            if stored != counted {
                let detail = format!("{what}: the run has {stored}, its events have {counted}");
                report.add(Invariant::CountersAgree, report.session().run(run.id), detail);
            }
        }
    }
}
