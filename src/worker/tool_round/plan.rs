//! The calls of one reply: their ledger rows, their results, and the calls that must wait.

use super::images::{History, blocks_of, omit_excess};
use super::permission_decision::edited_note;
use crate::domain::call_end::{EndReason, INTERRUPTED, RunEnd};
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::hidden_text::into_shown;
use crate::domain::image::Image;
use crate::domain::message::Content;
use crate::domain::permission::Awaits;
use crate::domain::source::Source;
use crate::domain::state_change::StateChange;
use crate::domain::storable::without_nul;
use crate::domain::tool::{CallResult, CallState, ToolCall};
use crate::domain::tool_error::Handling;
use crate::store::step::CallRecord;
use crate::store::tool_calls::LedgerRow;

/// The results of a round in the order of the calls, and what of them is not stored yet.
#[derive(Debug, Default)]
pub(in crate::worker) struct RoundResults {
    pub(in crate::worker) results: Vec<CallResult>,
    pub(in crate::worker) records: Vec<CallRecord>,
    pub(in crate::worker) events: Vec<NewEvent>,
    pub(in crate::worker) state_changes: Vec<StateChange>,
}

/// A call that has ended.
#[derive(Debug)]
pub(in crate::worker) struct EndedCall {
    /// The index of the call in the round.
    pub(in crate::worker) position: usize,
    pub(in crate::worker) result: CallResult,
    /// The images that the model receives after the text of the result.
    pub(in crate::worker) images: Vec<Image>,
    /// The reason for the end, if it is not the tool's.
    pub(in crate::worker) reason: Option<EndReason>,
    /// The end counts as an execution of the tool.
    pub(in crate::worker) is_execution: bool,
    pub(in crate::worker) duration_ms: i64,
    pub(in crate::worker) state_changes: Vec<StateChange>,
    pub(in crate::worker) sources: Vec<Source>,
    pub(in crate::worker) sandbox: Option<&'static str>,
    /// A failed call can be repeated without harm.
    pub(in crate::worker) is_repeatable: bool,
}

impl EndedCall {
    /// The end of a call that was not executed.
    pub(in crate::worker) fn not_executed(position: usize, result: CallResult) -> Self {
        Self {
            position,
            result,
            images: Vec::new(),
            reason: None,
            is_execution: false,
            duration_ms: 0,
            state_changes: Vec::new(),
            sources: Vec::new(),
            sandbox: None,
            is_repeatable: true,
        }
    }
}

/// The reason for which a call cannot run yet.
#[derive(Debug, Clone)]
pub(in crate::worker) struct Hold {
    pub(in crate::worker) awaits: Awaits,
    pub(in crate::worker) reason: Option<String>,
}

/// A call that cannot run yet.
#[derive(Debug)]
pub(in crate::worker) struct HeldCall<'a> {
    pub(in crate::worker) call: &'a ToolCall,
    pub(in crate::worker) hold: Hold,
}

/// The end of a run before its calls are answered.
#[derive(Debug, Clone, Copy)]
pub(in crate::worker) struct Closing {
    /// The cause.
    pub(in crate::worker) end: RunEnd,
    /// True if this worker executed the started calls. Otherwise the worker that did has stopped.
    pub(in crate::worker) is_driven: bool,
}

/// The calls of one reply and their states.
#[derive(Debug)]
pub(in crate::worker) struct ToolRound<'a> {
    pub(in crate::worker) calls: &'a [ToolCall],
    ledger: Vec<LedgerRow>,
    results: Vec<Option<CallResult>>,
    held: Vec<Option<Hold>>,
    /// The results that are not stored yet.
    pub(in crate::worker) unstored: RoundResults,
}

impl<'a> ToolRound<'a> {
    pub(in crate::worker) fn new(calls: &'a [ToolCall], ledger: Vec<LedgerRow>) -> Self {
        let recorded = |call: &ToolCall| {
            let row = ledger.iter().find(|row| row.tool_use_id == call.tool_use_id)?;
            let text = row.result.clone()?;
            Some(CallResult {
                content: row.content.clone(),
                error_type: row.error_type,
                ..CallResult::of_text(&call.tool_use_id, row.state, text)
            })
        };
        let results = calls.iter().map(recorded).collect();
        let held = calls.iter().map(|_| None).collect();
        Self { calls, results, held, ledger, unstored: RoundResults::default() }
    }

    /// The ledger row of a call without a result; none if the call has its result.
    #[expect(clippy::option_option, reason = "no result yet is not the same as no row")]
    pub(in crate::worker) fn open(&self, position: usize) -> Option<Option<&LedgerRow>> {
        let call = self.calls.get(position)?;
        let is_open = self.results.get(position)?.is_none();
        is_open.then(|| self.row(call))
    }

    fn row(&self, call: &ToolCall) -> Option<&LedgerRow> {
        self.ledger.iter().find(|row| row.tool_use_id == call.tool_use_id)
    }

    /// The ledger row of a call that can run now: it has no result and is not held.
    #[expect(clippy::option_option, reason = "no result yet is not the same as no row")]
    pub(in crate::worker) fn runnable(&self, position: usize) -> Option<Option<&LedgerRow>> {
        let is_held = self.held.get(position).is_some_and(Option::is_some);
        if is_held { None } else { self.open(position) }
    }

    /// Holds a call.
    pub(in crate::worker) fn hold(
        &mut self,
        position: usize,
        awaits: Awaits,
        reason: Option<String>,
    ) {
        if let Some(held) = self.held.get_mut(position) {
            *held = Some(Hold { awaits, reason });
        }
    }

    /// True if a call before this one is held. Calls with effects keep their order.
    pub(in crate::worker) fn is_held_before(&self, position: usize) -> bool {
        self.held.iter().take(position).any(Option::is_some)
    }

    /// The position of the first held call with effects; later calls may depend on it. The number of
    /// calls if there is none.
    pub(in crate::worker) fn barrier(&self, is_parallel: impl Fn(&ToolCall) -> bool) -> usize {
        let mut calls = self.calls.iter().zip(&self.held);
        let barrier = calls.position(|(call, held)| held.is_some() && !is_parallel(call));
        barrier.unwrap_or(self.calls.len())
    }

    /// The calls that are held.
    pub(in crate::worker) fn held(&self) -> Vec<HeldCall<'a>> {
        let held = self.calls.iter().zip(&self.held);
        held.filter_map(|(call, hold)| Some(HeldCall { call, hold: hold.clone()? })).collect()
    }

    /// True if the ledger records that a call waits.
    pub(in crate::worker) fn is_recorded_as_waiting(&self, call: &ToolCall) -> bool {
        self.row(call).is_some_and(|row| row.wait.is_some())
    }

    /// The note before a result whose call ran with an edited input.
    fn edit_note(&self, call: &ToolCall) -> Option<String> {
        self.row(call)?.wait.as_ref()?.input.as_deref().map(edited_note)
    }

    /// Ends a call that is not executed.
    pub(in crate::worker) fn end_with(&mut self, position: usize, result: CallResult) {
        self.insert(EndedCall::not_executed(position, result));
    }

    /// Ends a call that has no outcome: its worker stopped, or its run ends first.
    pub(in crate::worker) fn interrupt(
        &mut self,
        position: usize,
        reason: EndReason,
        text: impl Into<String>,
    ) {
        if let Some(call) = self.calls.get(position) {
            let result = CallResult::of_text(&call.tool_use_id, CallState::Interrupted, text);
            let ended = EndedCall::not_executed(position, result);
            self.insert(EndedCall { reason: Some(reason), ..ended });
        }
    }

    /// Ends a call during which a worker stopped.
    pub(in crate::worker) fn worker_stopped(&mut self, position: usize) {
        self.interrupt(position, EndReason::WorkerStopped, INTERRUPTED);
    }

    /// Ends a call that may not run, or whose answer came too late.
    pub(in crate::worker) fn refuse(
        &mut self,
        position: usize,
        reason: EndReason,
        result: CallResult,
    ) {
        let ended = EndedCall::not_executed(position, result);
        self.insert(EndedCall { reason: Some(reason), ..ended });
    }

    /// Ends a call whose change of a file an earlier attempt made: with the result that was recorded
    /// before the change.
    pub(in crate::worker) fn end_applied(&mut self, position: usize, text: String) {
        let Some(call) = self.calls.get(position) else { return };
        let result = CallResult::of_text(&call.tool_use_id, CallState::Done, text);
        let state_changes = self.row(call).and_then(file_read).into_iter().collect();
        self.end_executed(EndedCall { state_changes, ..EndedCall::not_executed(position, result) });
    }

    /// Ends a call that its tool has executed.
    pub(in crate::worker) fn end_by_tool(&mut self, mut ended: EndedCall, history: History<'_>) {
        omit_excess(&mut ended, history, self);
        self.end_executed(ended);
    }

    /// Ends a call that was executed and has no images.
    pub(in crate::worker) fn end_executed(&mut self, mut ended: EndedCall) {
        if let Some(note) = self.calls.get(ended.position).and_then(|call| self.edit_note(call)) {
            ended.result.text.insert_str(0, &note);
        }
        self.insert(ended);
    }

    fn insert(&mut self, ended: EndedCall) {
        let failure = Handling::of(ended.result.error_type);
        let failure = if ended.is_repeatable { failure } else { Handling::Fail };
        let EndedCall { position, mut result, images, duration_ms, state_changes, .. } = ended;
        // Here, because the texts of all tools, users and rules pass.
        result.text = into_shown(without_nul(result.text));
        if !images.is_empty() {
            result.content = blocks_of(&result.text, &images).ok();
        }
        let Some(slot) = self.results.get_mut(position) else {
            return;
        };
        self.unstored.records.push(CallRecord {
            result: Some(result.text.clone()),
            is_execution: ended.is_execution,
            duration_ms,
            error_type: result.error_type,
            sandbox: ended.sandbox,
            sources: ended.sources.clone(),
            end_reason: ended.reason,
            ..CallRecord::new(&result.tool_use_id, result.state)
        });
        if let Ok(content) = Content::text(&result.text) {
            self.unstored.events.push(NewEvent::new(&EventBody::AgentToolResult {
                tool_use_id: result.tool_use_id.clone(),
                content,
                is_error: result.is_error(),
                duration_ms,
                error_type: result.error_type,
                handling: result.is_error().then_some(failure),
                sources: ended.sources,
            }));
        }
        self.unstored.events.extend(state_changes.iter().filter_map(state_change_event));
        self.unstored.state_changes.extend(state_changes);
        *slot = Some(result);
    }

    /// The results of the round that are known.
    pub(super) fn known_results(&self) -> impl Iterator<Item = &CallResult> {
        self.results.iter().flatten()
    }

    /// Takes the records that are not stored yet, for a step that stores no message with the results:
    /// another attempt reads the images of a result from its ledger row.
    pub(super) fn take_records(&mut self) -> Vec<CallRecord> {
        let mut records = std::mem::take(&mut self.unstored.records);
        for result in self.known_results().filter(|result| result.content.is_some()) {
            let of_call = |record: &&mut CallRecord| record.tool_use_id == result.tool_use_id;
            if let Some(record) = records.iter_mut().find(of_call) {
                record.content.clone_from(&result.content);
            }
        }
        records
    }

    /// Ends all open calls, because the run ends first.
    pub(in crate::worker) fn close(&mut self, closing: Closing) {
        let Closing { end, is_driven } = closing;
        for position in 0..self.calls.len() {
            match self.open(position) {
                None => {}
                Some(row) if row.is_some_and(|row| row.state == CallState::Started) => {
                    if is_driven {
                        self.interrupt(position, end.reason(), end.while_running());
                    } else {
                        self.worker_stopped(position);
                    }
                }
                Some(_) => self.interrupt(position, end.reason(), end.before_running()),
            }
        }
    }

    pub(in crate::worker) fn into_results(self) -> RoundResults {
        RoundResults { results: self.results.into_iter().flatten().collect(), ..self.unstored }
    }
}

/// The event that reports a state change to clients, if there is one.
fn state_change_event(change: &StateChange) -> Option<NewEvent> {
    let body = match change {
        // The worker stores these changes together with their events.
        StateChange::FileRead { .. }
        | StateChange::AnnouncedToolLists(_)
        | StateChange::Container(_) => return None,
        StateChange::Todos(todos) => EventBody::Todos { todos: todos.clone() },
        StateChange::PermissionMode(permission_mode) => EventBody::mode(*permission_mode),
        StateChange::SentHistory(change) => EventBody::sent(change.clone()),
        StateChange::Compacted(compaction) => EventBody::compacted(compaction),
    };
    Some(NewEvent::new(&body))
}

/// The state change that the model knows the content of a file after a change.
fn file_read(row: &LedgerRow) -> Option<StateChange> {
    let ((path, _), hash) = row.change.as_ref().zip(row.hash_after.as_ref())?;
    Some(StateChange::FileRead { path: path.clone(), hash: hash.clone() })
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::domain::permission::Decision;
    use crate::store::tool_calls::Wait;

    #[test]
    fn a_change_made_by_an_earlier_attempt_has_the_recorded_result() {
        let edited = Wait {
            awaits: Awaits::Approval,
            decision: Some(Decision::Allow),
            message: None,
            input: Some(r#"{"b":2}"#.into()),
            input_hash: None,
            is_overdue: false,
        };
        let row = LedgerRow {
            tool_use_id: "toolu_1".into(),
            state: CallState::Started,
            hash_before: None,
            hash_after: Some(b"new".into()),
            change: Some(("a.txt".into(), "Written.".into())),
            result: None,
            content: None,
            error_type: None,
            wait: Some(edited),
            sub_agent_run: None,
        };
        let input = RawValue::from_string("{}".into()).unwrap();
        let calls =
            [ToolCall { tool_use_id: row.tool_use_id.clone(), name: "write_file".into(), input }];
        let mut round = ToolRound::new(&calls, vec![row]);
        round.end_applied(0, "Written.".into());
        let RoundResults { results, records, state_changes, .. } = round.into_results();
        let text = format!("{}Written.", edited_note(r#"{"b":2}"#));
        assert_eq!(results, [CallResult::of_text("toolu_1", CallState::Done, &*text)]);
        let record = CallRecord::new("toolu_1", CallState::Done);
        assert_eq!(records, [CallRecord { result: Some(text), ..record }]);
        assert_eq!(
            state_changes,
            [StateChange::FileRead { path: "a.txt".into(), hash: b"new".to_vec() }]
        );
    }
}
