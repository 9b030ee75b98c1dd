//! Whether runs stand where their rows say, and the session's counters with them.

use std::collections::{HashMap, HashSet};

use super::Report;
use super::body::Body;
use super::facts::{CallFacts, Facts, RunFacts};
use super::requests::cost;
use crate::domain::ids::RunId;
use crate::domain::run::RunStatus;
use crate::domain::usage::Usage;
use crate::domain::verification::Invariant;

pub(super) fn check(facts: &Facts, report: &mut Report) {
    for run in facts.runs.iter() {
        state(run, report);
    }
    let live: Vec<&RunFacts> = facts.runs.iter().filter(|run| run.is_live()).collect();
    if live.len() > 1 {
        let ids: Vec<String> = live.iter().map(|run| run.id.to_string()).collect();
        let detail = format!("the runs {} are live at a time", ids.join(" and "));
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
        (
            run.has_lease != is_running,
            format!("the run is {word}, which does not go with its lease"),
        ),
        (
            run.wake.is_some() != (status == RunStatus::RequiresAction),
            format!("the run is {word}, which does not go with the time of its waking"),
        ),
        (
            run.has_reservation && !is_running,
            format!("the run is {word}, and a part of a budget is kept for it"),
        ),
        (
            run.has_finished != status.is_terminal(),
            format!("the run is {word}, which does not go with its end"),
        ),
        (
            run.has_outcome != status.is_terminal(),
            format!("the run is {word}, which does not go with its outcome"),
        ),
    ] {
        if is_wrong {
            report.add(Invariant::RunStateWhole, place.clone(), detail);
        }
    }
    if let Some(at) = run.abandoned_at.filter(|_| is_running) {
        let detail = format!("the lease ran out at {at:.0}, and no worker took the run over");
        report.add(Invariant::LeaseRenewed, place, detail);
    }
}

/// A run that waits and is not due waits for somebody to answer a call.
fn waits(facts: &Facts, run: &RunFacts, report: &mut Report) {
    let Some((wake_at, is_forgotten)) = run.wake else { return };
    let place = report.session().run(run.id);
    if is_forgotten {
        let detail = format!("the run was to go on at {wake_at:.0}, and no worker took it up");
        return report.add(Invariant::WaitsEnd, place, detail);
    }
    let is_open = |call: &&CallFacts| {
        call.run_id == run.id && call.awaits.is_some_and(|(_, is_undecided)| is_undecided)
    };
    if facts.now < wake_at && facts.calls.iter().find(is_open).is_none() {
        let detail = format!("the run waits until {wake_at:.0}, and none of its calls does");
        report.add(Invariant::WaitsEnd, place, detail);
    }
}

/// A run that a worker has taken up counts as waiting until its message enters the history.
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
    for (what, said, counted) in [
        ("runs that wait", session.queued.to_string(), queued.to_string()),
        ("the live run", name(session.active_run_id), name(active)),
        ("messages", session.last_message_seq.to_string(), facts.messages.len().to_string()),
        ("tokens", tokens(session.usage), tokens(usage)),
        ("cost", cost(session.cost), cost(spent)),
    ] {
        if said != counted {
            let detail = format!("the session says of {what}: {said}; its rows say: {counted}");
            report.add(Invariant::CountersAgree, report.session(), detail);
        }
    }
}

pub(super) fn tokens(usage: Usage) -> String {
    let Usage {
        input_tokens,
        cache_creation_input_tokens,
        cache_read_input_tokens,
        output_tokens,
        cache_creation_1h_input_tokens,
        thinking_tokens,
        web_search_requests,
        web_fetch_requests,
    } = usage;
    format!(
        "{input_tokens} in, {cache_creation_input_tokens} into the cache \
         ({cache_creation_1h_input_tokens} for an hour), {cache_read_input_tokens} from the cache, \
         {output_tokens} out ({thinking_tokens} of thinking), {web_search_requests} searches, \
         {web_fetch_requests} fetches"
    )
}

/// Requests and tokens of each run are those that its events tell of.
fn requests(facts: &Facts, report: &mut Report) {
    let mut told: HashMap<RunId, (i32, Usage)> = HashMap::new();
    for event in &facts.events {
        if let (Some(run_id), Body::RequestEnd { usage, is_error }) = (event.run_id, &event.body) {
            let (requests, sum) = told.entry(run_id).or_default();
            *requests += i32::from(!is_error);
            *sum += *usage;
        }
    }
    for run in facts.runs.iter() {
        let (requests, usage) = told.get(&run.id).copied().unwrap_or_default();
        for (what, said, counted) in [
            ("requests", run.model_requests.to_string(), requests.to_string()),
            ("tokens", tokens(run.usage), tokens(usage)),
        ] {
            if said != counted {
                let detail = format!("the run says of {what}: {said}; its events say: {counted}");
                report.add(Invariant::CountersAgree, report.session().run(run.id), detail);
            }
        }
    }
}
