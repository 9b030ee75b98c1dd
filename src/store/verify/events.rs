//! Checks of the events, in order, against the history and the ledger.

use std::collections::{HashMap, VecDeque};

use super::body::Body;
use super::facts::{CallFacts, EventFacts, Facts, MessageFacts, RunFacts};
use super::parts::{CallResult, Output};
use super::report::Report;
use crate::domain::ids::RunId;
use crate::domain::run_status::RunStatus;
use crate::domain::verification::{Invariant, Location};

/// The events of one run.
#[derive(Debug, Default)]
struct RunEvents<'a> {
    announced: Vec<&'a EventFacts>,
    output: VecDeque<(i64, &'a Output)>,
    ends: Vec<i64>,
    last: i64,
    /// The last event that reports the run as waiting for an answer.
    rest: i64,
    /// The last event that reports no action of a client.
    last_of_ours: i64,
}

pub(super) fn check(facts: &Facts, report: &mut Report) {
    numbers(facts, report);
    let mut by_run = group_by_run(facts, report);
    let mut messages: HashMap<RunId, Vec<&MessageFacts>> = HashMap::new();
    // The client's own message is reported by the event that accepts it.
    let own = facts.messages.iter().filter(|message| !message.is_inherited);
    for message in own.filter(|message| !message.is_from_user()) {
        messages.entry(message.run_id).or_default().push(message);
    }
    for run in facts.runs.iter() {
        let mut events = by_run.remove(&run.id).unwrap_or_default();
        let run_messages = messages.remove(&run.id).unwrap_or_default();
        announced(run, &events, report);
        output(&run_messages, run, &mut events, report);
        final_event(run, &events, report);
    }
    results(facts, report);
    closing_results(facts, report);
}

/// Groups the events by run, and reports those without one and those that are unreadable.
fn group_by_run<'a>(facts: &'a Facts, report: &mut Report) -> HashMap<RunId, RunEvents<'a>> {
    let mut by_run: HashMap<RunId, RunEvents<'_>> = HashMap::new();
    for event in &facts.events {
        let place = report.session().event(event.seq);
        if let Body::Unreadable(cause) = &event.body {
            let detail = format!("unreadable event: {cause}");
            report.add(Invariant::Readable, place.clone(), detail);
        }
        let Some(run_id) = event.run_id.filter(|id| facts.runs.find(*id).is_some()) else {
            if !event.is_sessions {
                let detail = "the event belongs to no run of the session";
                report.add(Invariant::EventsComplete, place, detail);
            }
            continue;
        };
        let run = by_run.entry(run_id).or_default();
        run.last = event.seq;
        if !event.is_from_client {
            run.last_of_ours = event.seq;
        }
        match &event.body {
            Body::UserMessage(_) => run.announced.push(event),
            Body::Output(output) => run.output.push_back((event.seq, output)),
            Body::Idle { continues: true } => run.rest = event.seq,
            Body::Idle { continues: false } => run.ends.push(event.seq),
            Body::ToolResult { .. }
            | Body::RequestEnd { .. }
            | Body::Other
            | Body::Unreadable(_) => {}
        }
    }
    by_run
}

fn numbers(facts: &Facts, report: &mut Report) {
    let gap = (1..).zip(&facts.events).find(|(expected, event)| event.seq != *expected);
    let count = i64::try_from(facts.events.len()).unwrap_or(i64::MAX);
    if let Some((expected, event)) = gap {
        let detail = format!("event {} follows where event {expected} is expected", event.seq);
        report.add(Invariant::EventsNumbered, report.session().event(event.seq), detail);
    } else if count != facts.session.last_seq {
        let detail =
            format!("the session counts {} events, but has {count}", facts.session.last_seq);
        report.add(Invariant::EventsNumbered, report.session(), detail);
    }
}

fn announced(run: &RunFacts, events: &RunEvents<'_>, report: &mut Report) {
    let place = report.session().run(run.id);
    let matches = |event: &EventFacts| matches!(event.body, Body::UserMessage(reported) if reported == run.announced);
    let detail = match events.announced.as_slice() {
        [event] if event.seq != run.accepted_seq || event.id != run.message_id => {
            "the event of the run's message is not the one that accepted it"
        }
        [event] if !matches(event) => {
            "the event of the run's message has other content than the message"
        }
        [_] => return,
        [] => "no event reports the run's message",
        _ => "more than one event reports the run's message",
    };
    report.add(Invariant::RunsAnnounced, place, detail);
}

/// The model's output, block by block.
fn output(
    messages: &[&MessageFacts],
    run: &RunFacts,
    events: &mut RunEvents<'_>,
    report: &mut Report,
) {
    let place = report.session().run(run.id);
    for message in messages {
        for part in &message.parts.output {
            let (place, detail) = match events.output.pop_front() {
                Some((_, output)) if output == part => continue,
                Some((seq, output)) => (
                    place.message(message.seq).event(seq),
                    format!(
                        "event {seq} ({}) differs from the content of message {} ({})",
                        output.kind(),
                        message.seq,
                        part.kind()
                    ),
                ),
                None => (
                    place.message(message.seq),
                    format!(
                        "no event reports the content of message {} ({})",
                        message.seq,
                        part.kind()
                    ),
                ),
            };
            // All later blocks differ, too.
            return report.add(Invariant::EventsComplete, place, detail);
        }
    }
    if let Some((seq, output)) = events.output.front() {
        let detail = format!("event {seq} ({}) has content that no message has", output.kind());
        report.add(Invariant::EventsComplete, place.event(*seq), detail);
    }
}

fn final_event(run: &RunFacts, events: &RunEvents<'_>, report: &mut Report) {
    let place = report.session().run(run.id);
    let waits = run.status == Some(RunStatus::RequiresAction);
    if waits && events.rest != events.last_of_ours {
        let detail =
            "the run waits for a decision or result, but its last event does not report the wait";
        report.add(Invariant::OneFinalEvent, place.clone(), detail);
    }
    let detail = match (run.is_settled(), events.ends.as_slice()) {
        (true, [end]) if *end == events.last => return,
        (false, []) => return,
        (true, []) => "the run has settled, but no event reports it".to_owned(),
        (true, [_]) => format!("event {} comes after the run's end", events.last),
        (true, _) => "more than one event reports that the run has settled".to_owned(),
        (false, _) => "an event reports that the run has settled, but it has not".to_owned(),
    };
    report.add(Invariant::OneFinalEvent, place, detail);
}

/// The results with which a fork begins: each is reported once. Forks of earlier versions report none
/// of them.
fn closing_results(facts: &Facts, report: &mut Report) {
    let mut pairs = facts.messages.iter().zip(facts.messages.iter().skip(1));
    let closing = pairs.find(|(before, message)| message.closes(Some(before)));
    let mut open: HashMap<&str, &CallResult> = HashMap::new();
    if let Some((_, message)) = closing {
        open.extend(message.parts.results.iter().map(|result| (result.id.as_str(), result)));
    }
    let mut is_reported = false;
    for event in facts.events.iter().filter(|event| event.run_id.is_none()) {
        let Body::ToolResult { tool_use_id, hash, is_error } = &event.body else { continue };
        is_reported = true;
        let detail = match open.remove(tool_use_id.as_str()) {
            Some(result) if result.is_error == *is_error && result.text.is_reported_as(hash) => {
                continue;
            }
            Some(_) => "differs from the result with which the fork begins",
            None => "reports a result with which the fork does not begin",
        };
        let detail = format!("event {} of call {tool_use_id} {detail}", event.seq);
        let place = report.session().event(event.seq).call(tool_use_id);
        report.add(Invariant::EventsComplete, place, detail);
    }
    let mut unreported: Vec<&str> = open.into_keys().filter(|_| is_reported).collect();
    unreported.sort_unstable();
    for id in unreported {
        let detail = format!("no event reports the result of call {id}");
        report.add(Invariant::EventsComplete, report.session().call(id), detail);
    }
}

/// The results of calls: each is reported once, as in the ledger. A repeated ID belongs to a later
/// round.
fn results(facts: &Facts, report: &mut Report) {
    let mut ended: HashMap<(RunId, &str), VecDeque<&CallFacts>> = HashMap::new();
    for row in facts.calls.iter().filter(|row| row.result.is_some()) {
        ended.entry((row.run_id, &row.tool_use_id)).or_default().push_back(row);
    }
    for event in &facts.events {
        let Body::ToolResult { tool_use_id, hash, is_error } = &event.body else { continue };
        let Some(run_id) = event.run_id else { continue };
        let place = report.session().event(event.seq).call(tool_use_id);
        let ended = ended.get_mut(&(run_id, tool_use_id.as_str()));
        let row = ended.and_then(VecDeque::pop_front);
        let detail = match row {
            // Events contain only the presence of an image.
            Some(row)
                if (row.has_blocks || row.result == Some(*hash)) && row.is_error() == *is_error =>
            {
                continue;
            }
            Some(_) => "differs from the result in the ledger",
            None => "reports a result that the ledger does not have",
        };
        let detail = format!("event {} of call {tool_use_id} {detail}", event.seq);
        report.add(Invariant::EventsComplete, place, detail);
    }
    let mut unreported: Vec<&CallFacts> = ended.into_values().flatten().collect();
    unreported.sort_by_key(|row| (row.message_seq, row.position));
    for row in unreported {
        let place: Location = report.session().run(row.run_id).message(row.message_seq);
        let detail = format!("no event reports the result of call {}", row.tool_use_id);
        report.add(Invariant::EventsComplete, place.call(&row.tool_use_id), detail);
    }
}
