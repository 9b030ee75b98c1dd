//! Whether the events, read from the first on, tell what the history and the ledger say.

use std::collections::{HashMap, VecDeque};

use super::Report;
use super::body::Body;
use super::facts::{CallFacts, EventFacts, Facts, MessageFacts, RunFacts};
use super::parts::Told;
use crate::domain::ids::RunId;
use crate::domain::run::RunStatus;
use crate::domain::verification::{Invariant, Place};

/// The events of one run.
#[derive(Debug, Default)]
struct OfRun<'a> {
    announced: Vec<&'a EventFacts>,
    told: VecDeque<(i64, &'a Told)>,
    ends: Vec<i64>,
    last: i64,
    /// When it last began to wait for somebody, and the last event that is not a client's.
    rest: i64,
    last_of_ours: i64,
}

pub(super) fn check(facts: &Facts, report: &mut Report) {
    numbers(facts, report);
    let mut of_runs = by_run(facts, report);
    let mut messages: HashMap<RunId, Vec<&MessageFacts>> = HashMap::new();
    // The client's own message is told by the event that accepts it.
    let said = facts.messages.iter().filter(|message| !message.is_inherited);
    for message in said.filter(|message| !message.is_users()) {
        messages.entry(message.run_id).or_default().push(message);
    }
    for run in facts.runs.iter() {
        let mut events = of_runs.remove(&run.id).unwrap_or_default();
        let said = messages.remove(&run.id).unwrap_or_default();
        announced(run, &events, report);
        told(&said, run, &mut events, report);
        ended(run, &events, report);
    }
    results(facts, report);
}

/// Sorts the events by their runs, and names those that have none or cannot be read.
fn by_run<'a>(facts: &'a Facts, report: &mut Report) -> HashMap<RunId, OfRun<'a>> {
    let mut of_runs: HashMap<RunId, OfRun<'_>> = HashMap::new();
    for event in &facts.events {
        let place = report.session().event(event.seq);
        if let Body::Unreadable(cause) = &event.body {
            let detail = format!("the event cannot be read: {cause}");
            report.add(Invariant::Readable, place.clone(), detail);
        }
        let Some(run_id) = event.run_id.filter(|id| facts.runs.find(*id).is_some()) else {
            if !event.is_sessions {
                let detail = "the event belongs to no run of the session";
                report.add(Invariant::EventsTellAll, place, detail);
            }
            continue;
        };
        let run = of_runs.entry(run_id).or_default();
        run.last = event.seq;
        if !event.is_clients {
            run.last_of_ours = event.seq;
        }
        match &event.body {
            Body::UserMessage(_) => run.announced.push(event),
            Body::Told(told) => run.told.push_back((event.seq, told)),
            Body::Idle { goes_on: true } => run.rest = event.seq,
            Body::Idle { goes_on: false } => run.ends.push(event.seq),
            Body::ToolResult { .. }
            | Body::RequestEnd { .. }
            | Body::Other
            | Body::Unreadable(_) => {}
        }
    }
    of_runs
}

fn numbers(facts: &Facts, report: &mut Report) {
    let gap = (1..).zip(&facts.events).find(|(expected, event)| event.seq != *expected);
    let count = i64::try_from(facts.events.len()).unwrap_or(i64::MAX);
    if let Some((expected, event)) = gap {
        let detail = format!("event {} stands where {expected} is due", event.seq);
        report.add(Invariant::EventsNumbered, report.session().event(event.seq), detail);
    } else if count != facts.session.last_seq {
        let detail =
            format!("the session counts {} events, and has {count}", facts.session.last_seq);
        report.add(Invariant::EventsNumbered, report.session(), detail);
    }
}

fn announced(run: &RunFacts, events: &OfRun<'_>, report: &mut Report) {
    let place = report.session().run(run.id);
    let tells =
        |event: &EventFacts| matches!(event.body, Body::UserMessage(told) if told == run.announced);
    let detail = match events.announced.as_slice() {
        [event] if event.seq != run.accepted_seq || event.id != run.message_id => {
            "the event of the run's message is not the one that accepted it"
        }
        [event] if !tells(event) => "the event of the run's message does not tell the message",
        [_] => return,
        [] => "no event tells of the run's message",
        _ => "more than one event tells of the run's message",
    };
    report.add(Invariant::RunsAnnounced, place, detail);
}

/// What the model said, block by block.
fn told(said: &[&MessageFacts], run: &RunFacts, events: &mut OfRun<'_>, report: &mut Report) {
    let place = report.session().run(run.id);
    for message in said {
        for part in &message.parts.told {
            let (place, detail) = match events.told.pop_front() {
                Some((_, told)) if told == part => continue,
                Some((seq, told)) => (
                    place.message(message.seq).event(seq),
                    format!(
                        "event {seq} ({}) does not tell what message {} says ({})",
                        told.kind(),
                        message.seq,
                        part.kind()
                    ),
                ),
                None => (
                    place.message(message.seq),
                    format!("no event tells what message {} says ({})", message.seq, part.kind()),
                ),
            };
            // What follows is out of step, too.
            return report.add(Invariant::EventsTellAll, place, detail);
        }
    }
    if let Some((seq, told)) = events.told.front() {
        let detail = format!("event {seq} ({}) tells what no message says", told.kind());
        report.add(Invariant::EventsTellAll, place.event(*seq), detail);
    }
}

fn ended(run: &RunFacts, events: &OfRun<'_>, report: &mut Report) {
    let place = report.session().run(run.id);
    let waits = run.status == Some(RunStatus::RequiresAction);
    if waits && events.rest != events.last_of_ours {
        let detail = "the run waits for somebody, and its last event does not say so";
        report.add(Invariant::EndToldOnce, place.clone(), detail);
    }
    let detail = match (run.is_settled(), events.ends.as_slice()) {
        (true, [end]) if *end == events.last => return,
        (false, []) => return,
        (true, []) => "the run has settled, and no event says so".to_owned(),
        (true, [_]) => format!("event {} comes after the run's end", events.last),
        (true, _) => "more than one event says that the run has settled".to_owned(),
        (false, _) => "an event says that the run has settled, and it has not".to_owned(),
    };
    report.add(Invariant::EndToldOnce, place, detail);
}

/// The results of calls: each told once, as the ledger has it. An id that comes again belongs to
/// a later round.
fn results(facts: &Facts, report: &mut Report) {
    let mut ended: HashMap<(RunId, &str), VecDeque<&CallFacts>> = HashMap::new();
    for row in facts.calls.iter().filter(|row| row.result.is_some()) {
        ended.entry((row.run_id, &row.tool_use_id)).or_default().push_back(row);
    }
    for event in &facts.events {
        let Body::ToolResult { tool_use_id, hash, is_error } = &event.body else { continue };
        let place = report.session().event(event.seq).call(tool_use_id);
        let row = event
            .run_id
            .and_then(|run_id| ended.get_mut(&(run_id, tool_use_id.as_str()))?.pop_front());
        let detail = match row {
            // Of an image, events tell only that it is there.
            Some(row)
                if (row.has_blocks || row.result == Some(*hash)) && row.is_error() == *is_error =>
            {
                continue;
            }
            Some(_) => "does not tell the result that the ledger has",
            None => "tells a result that the ledger does not have",
        };
        let detail = format!("event {} {detail}, of the call {tool_use_id}", event.seq);
        report.add(Invariant::EventsTellAll, place, detail);
    }
    let mut untold: Vec<&CallFacts> = ended.into_values().flatten().collect();
    untold.sort_by_key(|row| (row.message_seq, row.position));
    for row in untold {
        let place: Place = report.session().run(row.run_id).message(row.message_seq);
        let detail = format!("no event tells the result of the call {}", row.tool_use_id);
        report.add(Invariant::EventsTellAll, place.call(&row.tool_use_id), detail);
    }
}
