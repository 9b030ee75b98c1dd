//! The mapping between the states of the search and the types on which the service decides.

use std::cell::RefCell;
use std::collections::HashMap;

use serde_json::value::RawValue;

use super::state::{CALLS, History, HistoryEntry, Ledger, WRITE};
use crate::agent::history::results;
use crate::agent::{AgentLoop, Bounds, Step};
use crate::domain::limits::Limits;
use crate::domain::message::{Content, Message, Role};
use crate::domain::tool::{CallResult, CallState, ToolCall};
use crate::domain::usage::Usage;
use crate::store::tool_calls::LedgerRow;

const OLD: &[u8] = b"old";
const NEW: &[u8] = b"new";

/// The calls of the reply that has calls.
pub(super) fn calls() -> Vec<ToolCall> {
    ["look", "write", "launch"].into_iter().map(call).collect()
}

/// The call of the reply that has a quick one.
pub(super) fn look() -> ToolCall {
    call("peek")
}

fn call(name: &str) -> ToolCall {
    ToolCall {
        tool_use_id: format!("toolu_{name}"),
        name: name.to_owned(),
        input: RawValue::from_string("{}".to_owned()).unwrap(),
    }
}

/// The next step of the loop after these messages.
pub(super) fn next_step(history: &History) -> Step {
    thread_local! {
        static KNOWN: RefCell<HashMap<History, Step>> = RefCell::default();
    }
    KNOWN.with_borrow_mut(|known| {
        let step = || {
            let messages: Vec<Message> = history.entries().map(message).collect();
            let bounds = Bounds::new(&Limits::default(), None);
            AgentLoop::resume(&messages, bounds).unwrap().step().clone()
        };
        known.entry(*history).or_insert_with(step).clone()
    })
}

fn message(entry: HistoryEntry) -> Message {
    let (role, content, stop) = match entry {
        HistoryEntry::User => (Role::User, Content::text("Do it.").unwrap(), None),
        HistoryEntry::Answer => {
            (Role::Assistant, Content::text("Done.").unwrap(), Some("end_turn"))
        }
        HistoryEntry::Calls => (Role::Assistant, requested(&calls()), Some("tool_use")),
        HistoryEntry::Look => (Role::Assistant, requested(&[look()]), Some("tool_use")),
        HistoryEntry::Results(states) => (Role::User, results(&answers(states)).unwrap(), None),
        HistoryEntry::LookResult(state) => {
            let result = CallResult::of_text(&look().tool_use_id, state, "said");
            (Role::User, results(&[result]).unwrap(), None)
        }
    };
    Message { role, content, stop_reason: stop.map(Into::into), usage: Usage::default() }
}

fn requested(calls: &[ToolCall]) -> Content {
    let block = |call: &ToolCall| {
        let (id, name) = (&call.tool_use_id, &call.name);
        format!(r#"{{"type":"tool_use","id":"{id}","name":"{name}","input":{{}}}}"#)
    };
    let blocks: Vec<String> = calls.iter().map(block).collect();
    Content::parse(format!("[{}]", blocks.join(","))).unwrap()
}

fn answers(states: [CallState; CALLS]) -> Vec<CallResult> {
    let answer = |(call, state): (ToolCall, CallState)| {
        CallResult::of_text(&call.tool_use_id, state, "said")
    };
    calls().into_iter().zip(states).map(answer).collect()
}

/// The rows of the ledger as the store reads them.
pub(super) fn rows(ledger: Option<Ledger>) -> Vec<LedgerRow> {
    let calls = calls();
    let stored = ledger.iter().flatten().enumerate().zip(&calls);
    stored
        .filter_map(|((position, state), call)| {
            let state = (*state)?;
            let is_open = matches!(state, CallState::Planned | CallState::Started);
            let has_hashes = position == WRITE && state != CallState::Planned;
            Some(LedgerRow {
                tool_use_id: call.tool_use_id.clone(),
                state,
                hash_before: has_hashes.then(|| OLD.to_vec()),
                hash_after: has_hashes.then(|| NEW.to_vec()),
                change: has_hashes.then(|| ("a.txt".to_owned(), "said".to_owned())),
                result: (!is_open).then(|| "said".to_owned()),
                content: None,
                error_type: None,
                wait: None,
                sub_agent_run: None,
            })
        })
        .collect()
}

/// The hash of the file that the call writes.
pub(super) fn file(is_written: bool) -> Vec<u8> {
    if is_written { NEW } else { OLD }.to_vec()
}
