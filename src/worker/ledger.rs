//! The tool calls of a round: run once, recorded as they end, answered together.

use std::sync::Arc;
use std::time::Instant;

use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{self, StreamExt as _};

use super::drive::{Driver, millis};
use super::halt::Halt;
use super::previews::ReplyIds;
use crate::agent::Step;
use crate::domain::event::{EventBody, NewEvent, Permission};
use crate::domain::message::{BadContent, Content, View};
use crate::domain::tool::{CANCELLED, CallResult, CallState, INTERRUPTED, ToolCall, ToolClass};
use crate::store::step::{CallRecord, StepCommit};
use crate::store::tool_calls::{LedgerRow, list};
use crate::tools::{FileChange, Registry, ToolContext};

/// Pure calls of one round that run at a time.
const PARALLEL: usize = 8;

/// Results in the order of the calls, and what of them is not yet stored.
#[derive(Debug, Default)]
pub(super) struct Answered {
    pub(super) results: Vec<CallResult>,
    pub(super) records: Vec<CallRecord>,
    pub(super) events: Vec<NewEvent>,
}

/// A call that has ended.
struct Ended {
    position: usize,
    result: CallResult,
    is_execution: bool,
    duration_ms: i64,
}

impl Driver<'_> {
    /// Runs the calls that have no result yet. Neighbours that change nothing run in parallel;
    /// a call with effects runs alone, after those before it and before those behind it.
    pub(super) async fn call_tools(&mut self, calls: &[ToolCall]) -> Result<Answered, Halt> {
        let mut round = Round::new(calls, self.ledger().await?);
        let mut next = 0;
        while next < calls.len() {
            let is_pure = |call: &&ToolCall| self.class(call) == ToolClass::Pure;
            let pure = calls.iter().skip(next).take_while(is_pure).count();
            if pure > 0 {
                self.run_parallel(&mut round, next..next + pure).await?;
                next += pure;
            } else {
                self.run_alone(&mut round, next).await?;
                next += 1;
            }
        }
        Ok(round.answered())
    }

    /// Answers for calls that will not be run, because their run ends first.
    pub(super) async fn close_calls(&mut self) -> Result<Answered, Halt> {
        let calls = self.open_calls();
        if calls.is_empty() {
            return Ok(Answered::default());
        }
        let mut round = Round::new(&calls, self.ledger().await?);
        for position in 0..calls.len() {
            match round.open(position) {
                None => {}
                Some(row) if row.is_some_and(|row| row.state == CallState::Started) => {
                    round.end(position, CallState::Interrupted, INTERRUPTED);
                }
                Some(_) => round.end(position, CallState::Denied, CANCELLED),
            }
        }
        Ok(round.answered())
    }

    fn class(&self, call: &ToolCall) -> ToolClass {
        self.worker.parts.tools.class(&call.name)
    }

    /// What the ledger says of the calls. Calls that this attempt has just planned need no look.
    async fn ledger(&self) -> Result<Vec<LedgerRow>, Halt> {
        if !self.is_resumed {
            return Ok(Vec::new());
        }
        let mut conn = self.worker.parts.pool.acquire().await?;
        Ok(list(&mut conn, self.session_id(), self.last_message_seq()).await?)
    }

    async fn run_parallel(
        &mut self,
        round: &mut Round<'_>,
        positions: std::ops::Range<usize>,
    ) -> Result<(), Halt> {
        // What ended before them, or a run that stops now would forget it.
        self.record(round).await?;
        let calls = round.calls;
        let tools = Arc::clone(&self.worker.parts.tools);
        let context = self.context.clone();
        // Boxed, because the compiler cannot prove a stream of borrowing closures to be Send.
        let open: Vec<BoxFuture<'_, Ended>> = calls
            .iter()
            .enumerate()
            .filter(|(position, _)| positions.contains(position) && round.open(*position).is_some())
            .map(|(position, call)| run(&tools, &context, position, call).boxed())
            .collect();
        let running = stream::iter(open);
        // Those that end together are recorded together, the last ones with the message.
        let mut ended = Box::pin(running.buffer_unordered(PARALLEL).ready_chunks(PARALLEL));
        let signals = self.signals.clone();
        while let Some(ended) = signals.unless_stopped(ended.next()).await? {
            self.record(round).await?;
            for ended in ended {
                round.take(ended);
            }
        }
        Ok(())
    }

    /// Runs a call that changes something: its beginning is committed before anything can happen.
    async fn run_alone(&mut self, round: &mut Round<'_>, position: usize) -> Result<(), Halt> {
        let Some(row) = round.open(position) else {
            return Ok(());
        };
        let Some(call) = round.calls.get(position) else {
            return Ok(());
        };
        let change = self.planned_change(call).await;
        match row.filter(|row| row.state == CallState::Started) {
            None => {}
            Some(row) => match after_crash(row, change.as_ref()) {
                AfterCrash::Done(text) => {
                    round.end(position, CallState::Done, text);
                    return Ok(());
                }
                AfterCrash::RunAgain => {}
                AfterCrash::Unknown => {
                    round.end(position, CallState::Interrupted, INTERRUPTED);
                    return Ok(());
                }
            },
        }
        self.record(round).await?;
        self.start(call, change).await?;
        let tools = &self.worker.parts.tools;
        let running = run(tools, &self.context, position, call);
        let ended = self.signals.unless_stopped(running).await?;
        // The execution was counted when it began.
        round.take(Ended {
            is_execution: false,
            ..ended
        });
        Ok(())
    }

    async fn planned_change(&self, call: &ToolCall) -> Option<FileChange> {
        match self.class(call) {
            ToolClass::Checkable => {
                let tools = &self.worker.parts.tools;
                tools
                    .planned_change(&self.context, &call.name, &call.input)
                    .await
            }
            ToolClass::Pure | ToolClass::Effect => None,
        }
    }

    async fn start(&mut self, call: &ToolCall, change: Option<FileChange>) -> Result<(), Halt> {
        let (hash_before, hash_after) =
            change.map_or((None, None), |change| (change.before, Some(change.after)));
        let record = CallRecord {
            tool_use_id: call.tool_use_id.clone(),
            state: CallState::Started,
            result: None,
            is_execution: true,
            hash_before,
            hash_after,
        };
        let recorded_message_seq = self.last_message_seq();
        let recorded = &[record];
        self.store(
            &[],
            &StepCommit {
                recorded_message_seq,
                recorded,
                ..StepCommit::default()
            },
        )
        .await
    }

    /// Stores what has ended so far.
    async fn record(&mut self, round: &mut Round<'_>) -> Result<(), Halt> {
        if round.answered.records.is_empty() {
            return Ok(());
        }
        let records = std::mem::take(&mut round.answered.records);
        let events = std::mem::take(&mut round.answered.events);
        let step = StepCommit {
            recorded_message_seq: self.last_message_seq(),
            recorded: &records,
            events: &events,
            ..StepCommit::default()
        };
        self.store(&[], &step).await
    }
}

async fn run(tools: &Registry, context: &ToolContext, position: usize, call: &ToolCall) -> Ended {
    let started = Instant::now();
    let answer = tools.call(context, &call.name, &call.input).await;
    let state = if answer.is_error {
        CallState::Failed
    } else {
        CallState::Done
    };
    let result = CallResult {
        tool_use_id: call.tool_use_id.clone(),
        state,
        text: answer.text,
    };
    Ended {
        position,
        result,
        is_execution: true,
        duration_ms: millis(started),
    }
}

/// The calls of one reply and how far they are.
struct Round<'a> {
    calls: &'a [ToolCall],
    ledger: Vec<LedgerRow>,
    results: Vec<Option<CallResult>>,
    answered: Answered,
}

impl<'a> Round<'a> {
    fn new(calls: &'a [ToolCall], ledger: Vec<LedgerRow>) -> Self {
        let recorded = |call: &ToolCall| {
            let row = ledger
                .iter()
                .find(|row| row.tool_use_id == call.tool_use_id)?;
            let text = row.result.clone()?;
            let tool_use_id = call.tool_use_id.clone();
            Some(CallResult {
                tool_use_id,
                state: row.state,
                text,
            })
        };
        let results = calls.iter().map(recorded).collect();
        Self {
            calls,
            results,
            ledger,
            answered: Answered::default(),
        }
    }

    /// The ledger's word on a call without a result; none if the call has its result.
    #[expect(
        clippy::option_option,
        reason = "no result yet is not the same as no row"
    )]
    fn open(&self, position: usize) -> Option<Option<&LedgerRow>> {
        let call = self.calls.get(position)?;
        let is_open = self.results.get(position)?.is_none();
        is_open.then(|| {
            self.ledger
                .iter()
                .find(|row| row.tool_use_id == call.tool_use_id)
        })
    }

    /// Ends a call that is not run.
    fn end(&mut self, position: usize, state: CallState, text: impl Into<String>) {
        if let Some(call) = self.calls.get(position) {
            let tool_use_id = call.tool_use_id.clone();
            let result = CallResult {
                tool_use_id,
                state,
                text: text.into(),
            };
            self.take(Ended {
                position,
                result,
                is_execution: false,
                duration_ms: 0,
            });
        }
    }

    fn take(&mut self, ended: Ended) {
        let Ended {
            position,
            result,
            is_execution,
            duration_ms,
        } = ended;
        let Some(place) = self.results.get_mut(position) else {
            return;
        };
        self.answered.records.push(CallRecord {
            tool_use_id: result.tool_use_id.clone(),
            state: result.state,
            result: Some(result.text.clone()),
            is_execution,
            hash_before: None,
            hash_after: None,
        });
        if let Ok(content) = Content::text(&result.text) {
            self.answered
                .events
                .push(NewEvent::new(&EventBody::AgentToolResult {
                    tool_use_id: result.tool_use_id.clone(),
                    content,
                    is_error: result.is_error(),
                    duration_ms,
                }));
        }
        *place = Some(result);
    }

    fn answered(self) -> Answered {
        Answered {
            results: self.results.into_iter().flatten().collect(),
            ..self.answered
        }
    }
}

/// What is to be done with a call that had begun when its worker died.
#[derive(Debug, PartialEq, Eq)]
enum AfterCrash {
    Done(String),
    RunAgain,
    Unknown,
}

/// Decides by the file: it is as the call would leave it, or as the call found it, or neither.
fn after_crash(row: &LedgerRow, now: Option<&FileChange>) -> AfterCrash {
    let (Some(now), Some(after)) = (now, &row.hash_after) else {
        return AfterCrash::Unknown;
    };
    if now.before.as_ref() == Some(after) {
        AfterCrash::Done(now.result.clone())
    } else if now.before == row.hash_before {
        AfterCrash::RunAgain
    } else {
        AfterCrash::Unknown
    }
}

/// The events that tell of a reply: what was thought, what was said, what is asked for.
pub(super) fn reply_events(
    content: &Content,
    ids: ReplyIds,
    next: &Step,
) -> Result<Vec<NewEvent>, Halt> {
    let blocks = content.blocks()?;
    let mut events = Vec::new();
    let thoughts: Vec<&str> = blocks
        .iter()
        .filter_map(|block| match &block.view {
            View::Thinking(text) => Some(text.as_ref()),
            View::Text(_)
            | View::ToolUse(_)
            | View::ToolResult { .. }
            | View::ServerToolUse { .. }
            | View::Other { .. } => None,
        })
        .collect();
    if !thoughts.is_empty() {
        let content = texts(&thoughts)?;
        let body = EventBody::AgentThinking { content };
        events.push(NewEvent::with_id(ids.thinking.to_string(), &body));
    }
    let is_text = |view: &View<'_>| matches!(view, View::Text(_));
    let said: Vec<_> = blocks
        .iter()
        .filter(|block| is_text(&block.view))
        .map(|block| block.raw)
        .collect();
    if !said.is_empty() {
        let body = EventBody::AgentMessage {
            content: Content::from_blocks(said)?,
        };
        events.push(NewEvent::with_id(ids.message.to_string(), &body));
    }
    if let Step::CallTools(calls) = next {
        events.extend(calls.iter().map(|call| {
            let body = EventBody::AgentToolUse {
                name: call.name.clone(),
                input: call.input.clone(),
                evaluated_permission: Permission::Allow,
            };
            NewEvent::with_id(call.tool_use_id.clone(), &body)
        }));
    }
    Ok(events)
}

fn texts(texts: &[&str]) -> Result<Content, BadContent> {
    let blocks: Vec<_> = texts
        .iter()
        .map(|text| serde_json::json!({ "type": "text", "text": text }))
        .collect();
    Content::parse(serde_json::Value::from(blocks).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(before: Option<&[u8]>, after: Option<&[u8]>) -> LedgerRow {
        LedgerRow {
            tool_use_id: "toolu_1".into(),
            state: CallState::Started,
            hash_before: before.map(Into::into),
            hash_after: after.map(Into::into),
            result: None,
        }
    }

    fn now(before: Option<&[u8]>) -> FileChange {
        let before = before.map(Into::into);
        FileChange {
            before,
            after: b"new".to_vec(),
            result: "Written.".into(),
        }
    }

    #[test]
    fn a_change_of_a_file_is_decided_by_the_file() {
        let started = row(Some(b"old"), Some(b"new"));
        let done = AfterCrash::Done("Written.".into());
        assert_eq!(after_crash(&started, Some(&now(Some(b"new")))), done);
        assert_eq!(
            after_crash(&started, Some(&now(Some(b"old")))),
            AfterCrash::RunAgain
        );
        assert_eq!(
            after_crash(&started, Some(&now(Some(b"else")))),
            AfterCrash::Unknown
        );
        assert_eq!(after_crash(&started, Some(&now(None))), AfterCrash::Unknown);
        let new_file = row(None, Some(b"new"));
        assert_eq!(
            after_crash(&new_file, Some(&now(None))),
            AfterCrash::RunAgain
        );
    }

    #[test]
    fn without_evidence_nobody_knows() {
        assert_eq!(after_crash(&row(None, None), None), AfterCrash::Unknown);
        assert_eq!(
            after_crash(&row(None, None), Some(&now(None))),
            AfterCrash::Unknown
        );
    }
}
