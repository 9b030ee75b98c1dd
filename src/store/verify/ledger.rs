//! Checks that the ledger has every call once, with its final state.

use super::facts::{CallFacts, Facts, MessageFacts};
use super::parts::Call;
use super::report::Report;
use crate::domain::permission::Awaits;
use crate::domain::tool::CallState;
use crate::domain::verification::{Invariant, Location};

pub(super) fn check(facts: &Facts, report: &mut Report) {
    let mut rows = facts.calls.as_slice();
    for message in facts.messages.iter().filter(|message| !message.is_inherited) {
        let before = rows.partition_point(|row| row.message_seq < message.seq);
        let (stray, rest) = rows.split_at(before);
        rows_without_message(stray, report);
        let (own, rest) = rest.split_at(rest.partition_point(|row| row.message_seq == message.seq));
        rows = rest;
        complete(message, own, report);
    }
    rows_without_message(rows, report);
    let last = facts.messages.last().map(|message| message.seq);
    for row in &facts.calls {
        let may_be_open = last == Some(row.message_seq) && facts.runs.is_live(row.run_id);
        call(facts, row, may_be_open, report);
    }
}

fn at(row: &CallFacts, report: &Report) -> Location {
    report.session().run(row.run_id).message(row.message_seq).call(&row.tool_use_id)
}

fn rows_without_message(rows: &[CallFacts], report: &mut Report) {
    for row in rows {
        let place = at(row, report);
        report.add(Invariant::LedgerComplete, place, "the ledger row belongs to no message");
    }
}

fn complete(message: &MessageFacts, rows: &[CallFacts], report: &mut Report) {
    for (position, call) in (1..).zip(&message.parts.calls) {
        let place = report.session().run(message.run_id).message(message.seq).call(&call.id);
        let detail = match rows.iter().find(|row| row.tool_use_id == call.id) {
            None => format!("call {} has no row in the ledger", call.id),
            Some(row) if row.name != call.name || row.position != position => {
                format!(
                    "the ledger has call {} as {} at position {}, the message has it as {} at \
                         position {position}",
                    call.id, row.name, row.position, call.name
                )
            }
            Some(row) if row.run_id != message.run_id => {
                format!("the ledger has call {} in another run", call.id)
            }
            Some(row) => {
                approved(call, row, report);
                continue;
            }
        };
        report.add(Invariant::LedgerComplete, place, detail);
    }
    for row in rows {
        if !message.parts.calls.iter().any(|call| call.id == row.tool_use_id) {
            let detail = format!("the message does not contain call {}", row.tool_use_id);
            report.add(Invariant::LedgerComplete, at(row, report), detail);
        }
    }
}

/// The input that was decided on, or that ran, is the model's own or its replacement.
fn approved(call: &Call, row: &CallFacts, report: &mut Report) {
    let input = row.input.unwrap_or(call.input);
    if row.input_hash.as_ref().is_some_and(|hash| *hash != input) {
        let detail =
            format!("the input of call {} is not the one that was decided on or that ran", call.id);
        report.add(Invariant::InputsApproved, at(row, report), detail);
    }
}

fn call(facts: &Facts, row: &CallFacts, may_be_open: bool, report: &mut Report) {
    let Some(state) = row.state else {
        return report.add(Invariant::Readable, at(row, report), "unknown state");
    };
    let (id, word) = (&row.tool_use_id, state.as_str());
    let is_open = matches!(state, CallState::Planned | CallState::Started);
    if is_open != row.result.is_none() {
        let detail = format!("call {id} is {word}, which contradicts its result");
        report.add(Invariant::CallsEnded, at(row, report), detail);
    }
    if is_open && !may_be_open {
        let detail = format!("call {id} is {word}, but its round has ended");
        report.add(Invariant::CallsEnded, at(row, report), detail);
    }
    // A call whose file shows the effect of a crash may be repeated, once by each attempt.
    let attempts = facts.runs.find(row.run_id).map_or(1, |run| run.attempt);
    let is_from_client = row.awaits.is_some_and(|(awaits, _)| awaits == Awaits::Client);
    let most = match state {
        CallState::Planned | CallState::Denied => 0,
        // The client executed it, and only the client knows how often.
        _ if is_from_client => 0,
        CallState::Started | CallState::Done | CallState::Failed | CallState::Interrupted => {
            if row.has_evidence { attempts } else { 1 }
        }
    };
    let is_made = matches!(state, CallState::Started | CallState::Done);
    let least = i32::from(is_made && !is_from_client);
    if !(least..=most).contains(&row.executions) {
        let detail = format!("call {id} is {word}, but was executed {} times", row.executions);
        report.add(Invariant::CallsMadeOnce, at(row, report), detail);
    }
    if row.history_agrees == Some(false) {
        let detail = format!("the history does not contain the result of call {id}");
        report.add(Invariant::AnswersRecorded, at(row, report), detail);
    }
}
