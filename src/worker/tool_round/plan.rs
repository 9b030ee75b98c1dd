//! The calls of one reply: which have ended, which are open, which wait, and what the ledger says.

use crate::domain::event::{EventBody, NewEvent};
use crate::domain::message::Content;
use crate::domain::note::Note;
use crate::domain::permission::Awaits;
use crate::domain::source::Source;
use crate::domain::tool::{CANCELLED, CallResult, CallState, INTERRUPTED, ToolCall};
use crate::domain::tool_error::Handling;
use crate::store::step::CallRecord;
use crate::store::tool_calls::LedgerRow;
use crate::tools::without_nul;
use crate::worker::tool_round::permission_gate::edited_note;

/// Results in the order of the calls, and what of them is not yet stored.
#[derive(Debug, Default)]
pub(in crate::worker) struct Answered {
    pub(in crate::worker) results: Vec<CallResult>,
    pub(in crate::worker) records: Vec<CallRecord>,
    pub(in crate::worker) events: Vec<NewEvent>,
    pub(in crate::worker) notes: Vec<Note>,
}

/// A call that has ended.
pub(in crate::worker) struct Ended {
    pub(in crate::worker) position: usize,
    pub(in crate::worker) result: CallResult,
    pub(in crate::worker) is_execution: bool,
    pub(in crate::worker) duration_ms: i64,
    pub(in crate::worker) notes: Vec<Note>,
    pub(in crate::worker) sources: Vec<Source>,
    pub(in crate::worker) sandbox: Option<&'static str>,
    /// Whether it does no harm to try again what failed.
    pub(in crate::worker) is_repeatable: bool,
}

impl Ended {
    /// The end of a call that was not run.
    pub(in crate::worker) fn unrun(position: usize, result: CallResult) -> Self {
        Self {
            position,
            result,
            is_execution: false,
            duration_ms: 0,
            notes: Vec::new(),
            sources: Vec::new(),
            sandbox: None,
            is_repeatable: true,
        }
    }
}

/// What a call waits for that cannot run yet.
#[derive(Debug, Clone)]
pub(in crate::worker) struct Hold {
    pub(in crate::worker) awaits: Awaits,
    pub(in crate::worker) reason: Option<String>,
}

/// The calls of one reply and how far they are.
pub(in crate::worker) struct Round<'a> {
    pub(in crate::worker) calls: &'a [ToolCall],
    ledger: Vec<LedgerRow>,
    results: Vec<Option<CallResult>>,
    /// What calls wait for that cannot run yet.
    held: Vec<Option<Hold>>,
    pub(in crate::worker) answered: Answered,
}

impl<'a> Round<'a> {
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
        Self { calls, results, held, ledger, answered: Answered::default() }
    }

    /// The ledger's word on a call without a result; none if the call has its result.
    #[expect(clippy::option_option, reason = "no result yet is not the same as no row")]
    pub(in crate::worker) fn open(&self, position: usize) -> Option<Option<&LedgerRow>> {
        let call = self.calls.get(position)?;
        let is_open = self.results.get(position)?.is_none();
        is_open.then(|| self.row(call))
    }

    fn row(&self, call: &ToolCall) -> Option<&LedgerRow> {
        self.ledger.iter().find(|row| row.tool_use_id == call.tool_use_id)
    }

    /// The row of a call that may run now: it has no result, and it waits for nobody.
    #[expect(clippy::option_option, reason = "no result yet is not the same as no row")]
    pub(in crate::worker) fn runnable(&self, position: usize) -> Option<Option<&LedgerRow>> {
        let is_held = self.held.get(position).is_some_and(Option::is_some);
        if is_held { None } else { self.open(position) }
    }

    /// Lets a call wait.
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

    /// Whether a call before this one waits. Calls with effects keep their order.
    pub(in crate::worker) fn is_held_before(&self, position: usize) -> bool {
        self.held.iter().take(position).any(Option::is_some)
    }

    /// Where the first call is that waits and that those behind it may stand on.
    pub(in crate::worker) fn barrier(&self, is_parallel: impl Fn(&ToolCall) -> bool) -> usize {
        let mut calls = self.calls.iter().zip(&self.held);
        let barrier = calls.position(|(call, held)| held.is_some() && !is_parallel(call));
        barrier.unwrap_or(self.calls.len())
    }

    /// The calls that wait, and for what.
    pub(in crate::worker) fn held(&self) -> Vec<(&'a ToolCall, Hold)> {
        let held = self.calls.iter().zip(&self.held);
        held.filter_map(|(call, hold)| Some((call, hold.clone()?))).collect()
    }

    /// Whether the ledger knows that a call waits.
    pub(in crate::worker) fn is_known_to_wait(&self, call: &ToolCall) -> bool {
        self.row(call).is_some_and(|row| row.wait.is_some())
    }

    /// What the model is told besides a result: somebody changed the input.
    fn note_on(&self, call: &ToolCall) -> Option<String> {
        self.row(call)?.wait.as_ref()?.input.as_deref().map(edited_note)
    }

    /// Ends a call that is not run.
    pub(in crate::worker) fn end_with(&mut self, position: usize, result: CallResult) {
        self.place(Ended::unrun(position, result));
    }

    /// Ends a call that is not run.
    pub(in crate::worker) fn end(
        &mut self,
        position: usize,
        state: CallState,
        text: impl Into<String>,
    ) {
        if let Some(call) = self.calls.get(position) {
            self.end_with(position, CallResult::of_text(&call.tool_use_id, state, text));
        }
    }

    /// Ends a call whose change an earlier attempt made: its result is the one that was recorded
    /// before, and it leaves what it would have left.
    pub(in crate::worker) fn end_made(&mut self, position: usize, text: String) {
        let Some(call) = self.calls.get(position) else { return };
        let result = CallResult::of_text(&call.tool_use_id, CallState::Done, text);
        let notes = self.row(call).and_then(seen).into_iter().collect();
        self.take(Ended { notes, ..Ended::unrun(position, result) });
    }

    /// Takes in the end of a call that was run.
    pub(in crate::worker) fn take(&mut self, mut ended: Ended) {
        if let Some(note) = self.calls.get(ended.position).and_then(|call| self.note_on(call)) {
            ended.result.text.insert_str(0, &note);
        }
        self.place(ended);
    }

    fn place(&mut self, ended: Ended) {
        let failure = Handling::of(ended.result.error_type);
        let failure = if ended.is_repeatable { failure } else { Handling::Fail };
        let Ended { position, mut result, duration_ms, notes, .. } = ended;
        // What people and rules say has not passed where tools' results are made fit.
        result.text = without_nul(result.text);
        let Some(place) = self.results.get_mut(position) else {
            return;
        };
        self.answered.records.push(CallRecord {
            result: Some(result.text.clone()),
            is_execution: ended.is_execution,
            error_type: result.error_type,
            sandbox: ended.sandbox,
            sources: ended.sources,
            ..CallRecord::new(&result.tool_use_id, result.state)
        });
        if let Ok(content) = Content::text(&result.text) {
            self.answered.events.push(NewEvent::new(&EventBody::AgentToolResult {
                tool_use_id: result.tool_use_id.clone(),
                content,
                is_error: result.is_error(),
                duration_ms,
                error_type: result.error_type,
                handling: result.is_error().then_some(failure),
            }));
        }
        self.answered.events.extend(notes.iter().filter_map(told));
        self.answered.notes.extend(notes);
        *place = Some(result);
    }

    /// Ends all open calls, because their run ends first.
    pub(in crate::worker) fn close(&mut self) {
        for position in 0..self.calls.len() {
            match self.open(position) {
                None => {}
                Some(row) if row.is_some_and(|row| row.state == CallState::Started) => {
                    self.end(position, CallState::Interrupted, INTERRUPTED);
                }
                Some(_) => self.end(position, CallState::Denied, CANCELLED),
            }
        }
    }

    pub(in crate::worker) fn answered(self) -> Answered {
        Answered { results: self.results.into_iter().flatten().collect(), ..self.answered }
    }
}

/// The event that tells of a note, if clients are told.
fn told(note: &Note) -> Option<NewEvent> {
    let body = match note {
        // Those that only the worker makes come with their events.
        Note::Seen { .. } | Note::ToldServers(_) => return None,
        Note::Todos(todos) => EventBody::Todos { todos: todos.clone() },
        Note::Mode(permission_mode) => EventBody::mode(*permission_mode),
        Note::Sent(change) => EventBody::sent(change.clone()),
        Note::Compacted(compaction) => EventBody::compacted(compaction),
    };
    Some(NewEvent::new(&body))
}

/// The model has seen the file that a change left.
fn seen(row: &LedgerRow) -> Option<Note> {
    let ((path, _), hash) = row.change.as_ref().zip(row.hash_after.as_ref())?;
    Some(Note::Seen { path: path.clone(), hash: hash.clone() })
}

/// What is to be done with a call that changes something and has no result yet.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::worker) enum AfterCrash {
    Done(String),
    Run,
    Unknown,
}

/// Decides on a call that may have begun when its worker died. The ledger says whether it had, and
/// the file how far it came: it is as the call would leave it, or as the call found it, or neither.
pub(in crate::worker) fn after_crash(
    row: Option<&LedgerRow>,
    now: Option<&Option<Vec<u8>>>,
) -> AfterCrash {
    let Some(row) = row.filter(|row| row.state == CallState::Started) else {
        return AfterCrash::Run;
    };
    let (Some(now), Some(after), Some((_, result))) = (now, &row.hash_after, &row.change) else {
        return AfterCrash::Unknown;
    };
    if now.as_ref() == Some(after) {
        AfterCrash::Done(result.clone())
    } else if *now == row.hash_before {
        AfterCrash::Run
    } else {
        AfterCrash::Unknown
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::domain::permission::Decision;
    use crate::store::tool_calls::Wait;

    fn row(before: Option<&[u8]>, after: Option<&[u8]>) -> LedgerRow {
        LedgerRow {
            tool_use_id: "toolu_1".into(),
            state: CallState::Started,
            hash_before: before.map(Into::into),
            hash_after: after.map(Into::into),
            change: after.map(|_| ("a.txt".into(), "Written.".into())),
            result: None,
            content: None,
            error_type: None,
            wait: None,
            child_run: None,
        }
    }

    fn decide(row: &LedgerRow, now: Option<&[u8]>) -> AfterCrash {
        after_crash(Some(row), Some(&now.map(Into::into)))
    }

    #[test]
    fn a_change_of_a_file_is_decided_by_the_file() {
        let started = row(Some(b"old"), Some(b"new"));
        assert_eq!(decide(&started, Some(b"new")), AfterCrash::Done("Written.".into()));
        assert_eq!(decide(&started, Some(b"old")), AfterCrash::Run);
        assert_eq!(decide(&started, Some(b"else")), AfterCrash::Unknown);
        assert_eq!(decide(&started, None), AfterCrash::Unknown);
        assert_eq!(decide(&row(None, Some(b"new")), None), AfterCrash::Run);
    }

    #[test]
    fn without_evidence_nobody_knows() {
        assert_eq!(after_crash(Some(&row(None, None)), None), AfterCrash::Unknown);
        assert_eq!(after_crash(Some(&row(None, Some(b"new"))), None), AfterCrash::Unknown);
        assert_eq!(decide(&row(None, None), None), AfterCrash::Unknown);
    }

    #[test]
    fn a_call_that_has_not_begun_is_run() {
        let planned = LedgerRow { state: CallState::Planned, ..row(None, None) };
        assert_eq!(after_crash(Some(&planned), None), AfterCrash::Run);
        assert_eq!(after_crash(None, None), AfterCrash::Run);
    }

    #[test]
    fn a_change_that_an_earlier_attempt_made_leaves_what_it_would_have_left_then() {
        let edited = Wait {
            awaits: Awaits::Approval,
            decision: Some(Decision::Allow),
            message: None,
            input: Some(r#"{"b":2}"#.into()),
            input_hash: None,
            is_overdue: false,
        };
        let row = LedgerRow { wait: Some(edited), ..row(None, Some(b"new")) };
        let input = RawValue::from_string("{}".into()).unwrap();
        let calls =
            [ToolCall { tool_use_id: row.tool_use_id.clone(), name: "write_file".into(), input }];
        let mut round = Round::new(&calls, vec![row]);
        round.end_made(0, "Written.".into());
        let Answered { results, records, notes, .. } = round.answered();
        let text = format!("{}Written.", edited_note(r#"{"b":2}"#));
        assert_eq!(results, [CallResult::of_text("toolu_1", CallState::Done, &*text)]);
        let record = CallRecord::new("toolu_1", CallState::Done);
        assert_eq!(records, [CallRecord { result: Some(text), ..record }]);
        assert_eq!(notes, [Note::Seen { path: "a.txt".into(), hash: b"new".to_vec() }]);
    }
}
