//! The ledger of tool calls: what an earlier attempt has recorded, and the records of this one.

use std::time::Instant;

use super::plan::{EndedCall, ToolRound};
use crate::domain::tool::{CallResult, CallState, ToolCall};
use crate::faults::{self, Bug};
use crate::store::step::{CallRecord, ChangeRecord, StepCommit};
use crate::store::tool_calls::{LedgerRow, list_final};
use crate::tools::workspace::hash;
use crate::tools::{CallOutcome, FileChange};
use crate::worker::run::state::RunState;
use crate::worker::run::step_writer::StepWriter;
use crate::worker::run::stop_cause::StopCause;
use crate::worker::time::millis_since;

/// Reads the ledger rows of the open calls. Calls that this attempt has just planned have no rows
/// worth reading.
pub(super) async fn read_ledger(state: &RunState<'_>) -> Result<Vec<LedgerRow>, StopCause> {
    if !state.progress.is_resumed {
        return Ok(Vec::new());
    }
    let (session_id, seq) = (state.run.session_id(), state.writer.last_message_seq());
    let pool = &state.run.services.pool;
    let list = |_| pool.with(async |conn| Ok(list_final(conn, session_id, seq).await?));
    state.run.retry(list).await
}

/// Commits that a call has started. This must be done before the call can have an effect.
pub(super) async fn record_start(
    writer: &mut StepWriter<'_>,
    call: &ToolCall,
    change: Option<&FileChange>,
) -> Result<(), StopCause> {
    if faults::has(Bug::NoStarted) {
        return Ok(());
    }
    let change = change.map(|change| ChangeRecord {
        path: change.path.clone(),
        before: change.before.clone(),
        after: hash(&change.content),
        result: change.result.clone(),
    });
    let record = CallRecord {
        is_execution: true,
        change,
        input_hash: Some(hash(call.input.get().as_bytes())),
        ..CallRecord::new(&call.tool_use_id, CallState::Started)
    };
    let step = StepCommit {
        recorded_message_seq: writer.last_message_seq(),
        recorded: &[record],
        ..StepCommit::default()
    };
    writer.store(&[], &step).await
}

/// Commits the results that are not stored yet.
pub(in crate::worker) async fn record_results(
    writer: &mut StepWriter<'_>,
    round: &mut ToolRound<'_>,
) -> Result<(), StopCause> {
    if round.unstored.records.is_empty() {
        return Ok(());
    }
    let records = round.take_records();
    let events = std::mem::take(&mut round.unstored.events);
    let state_changes = std::mem::take(&mut round.unstored.state_changes);
    let step = StepCommit {
        recorded_message_seq: writer.last_message_seq(),
        recorded: &records,
        events: &events,
        state_changes: &state_changes,
        ..StepCommit::default()
    };
    writer.store(&[], &step).await
}

/// The end of a call with a tool's answer.
pub(in crate::worker) fn ended_call(
    position: usize,
    call: &ToolCall,
    answer: CallOutcome,
    started: Instant,
) -> EndedCall {
    let state = if answer.is_error { CallState::Failed } else { CallState::Done };
    let CallOutcome { text, images, error_type, state_changes, sources, sandbox, .. } = answer;
    let result = CallResult { error_type, ..CallResult::of_text(&call.tool_use_id, state, text) };
    let duration_ms = millis_since(started);
    let ended = EndedCall::not_executed(position, result);
    EndedCall { images, is_execution: true, duration_ms, state_changes, sources, sandbox, ..ended }
}

/// The decision on a call that changes a file and has no result yet.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::worker) enum AfterCrash {
    /// The change was made; the call has this result.
    Done(String),
    /// The change was not made: run the call.
    Run,
    /// The call may have run in part.
    Unknown,
}

/// Decides on a call that may have started before its worker stopped. The ledger says whether it
/// had started. `now` is the hash of the file: as the call would leave it, as the call found it, or
/// neither.
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
    use super::*;

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
            sub_agent_run: None,
        }
    }

    fn decide(row: &LedgerRow, now: Option<&[u8]>) -> AfterCrash {
        after_crash(Some(row), Some(&now.map(Into::into)))
    }

    #[test]
    fn a_change_of_a_file_is_decided_by_the_content_of_the_file() {
        let started = row(Some(b"old"), Some(b"new"));
        assert_eq!(decide(&started, Some(b"new")), AfterCrash::Done("Written.".into()));
        assert_eq!(decide(&started, Some(b"old")), AfterCrash::Run);
        assert_eq!(decide(&started, Some(b"else")), AfterCrash::Unknown);
        assert_eq!(decide(&started, None), AfterCrash::Unknown);
        assert_eq!(decide(&row(None, Some(b"new")), None), AfterCrash::Run);
    }

    #[test]
    fn without_recorded_hashes_the_state_is_unknown() {
        assert_eq!(after_crash(Some(&row(None, None)), None), AfterCrash::Unknown);
        assert_eq!(after_crash(Some(&row(None, Some(b"new"))), None), AfterCrash::Unknown);
        assert_eq!(decide(&row(None, None), None), AfterCrash::Unknown);
    }

    #[test]
    fn a_call_that_has_not_started_is_run() {
        let planned = LedgerRow { state: CallState::Planned, ..row(None, None) };
        assert_eq!(after_crash(Some(&planned), None), AfterCrash::Run);
        assert_eq!(after_crash(None, None), AfterCrash::Run);
    }
}
