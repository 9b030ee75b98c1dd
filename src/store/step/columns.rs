//! Steps as the arrays that their statement reads: one for each column. The arrays of the steps have
//! an element for each step, those of rows an element for each row, and the position of its step.

use uuid::Uuid;

use super::encoded::{EncodedCall, EncodedMessage, EncodedPlan, EncodedStep};
use crate::domain::ids::RunId;
use crate::domain::tool::CallState;

/// All columns of steps.
pub(super) struct Columns<'a> {
    pub(super) steps: StepColumns<'a>,
    pub(super) usage: UsageColumns,
    pub(super) messages: MessageColumns<'a>,
    pub(super) planned: PlannedColumns<'a>,
    pub(super) calls: CallColumns<'a>,
    pub(super) events: EventColumns<'a>,
    pub(super) reads: ReadColumns<'a>,
}

impl<'a> Columns<'a> {
    pub(super) fn of(steps: &[&'a EncodedStep]) -> Self {
        Self {
            steps: StepColumns::of(steps),
            usage: UsageColumns::of(steps),
            messages: MessageColumns::of(steps),
            planned: PlannedColumns::of(steps),
            calls: CallColumns::of(steps),
            events: EventColumns::of(steps),
            reads: ReadColumns::of(steps),
        }
    }
}

/// The steps themselves.
#[derive(Default)]
pub(super) struct StepColumns<'a> {
    pub(super) session_ids: Vec<Uuid>,
    pub(super) run_ids: Vec<Uuid>,
    pub(super) attempts: Vec<i32>,
    pub(super) workers: Vec<Uuid>,
    pub(super) steps: Vec<i32>,
    pub(super) is_progress: Vec<bool>,
    pub(super) dequeued: Vec<i32>,
    pub(super) statuses: Vec<Option<&'static str>>,
    pub(super) outcomes: Vec<Option<&'a str>>,
    pub(super) stop_reasons: Vec<Option<&'a str>>,
    pub(super) requests: Vec<Option<&'a str>>,
    pub(super) recorded_message_seqs: Vec<i32>,
    pub(super) event_counts: Vec<i32>,
    pub(super) message_counts: Vec<i32>,
}

impl<'a> StepColumns<'a> {
    fn of(steps: &[&'a EncodedStep]) -> Self {
        let mut columns = Self::default();
        for step in steps {
            columns.session_ids.push(step.session_id.as_uuid());
            columns.run_ids.push(step.fence.run_id.as_uuid());
            columns.attempts.push(step.fence.attempt);
            columns.workers.push(step.fence.worker.as_uuid());
            columns.steps.push(step.steps);
            columns.is_progress.push(step.is_progress);
            columns.dequeued.push(i32::from(step.dequeues));
            columns.statuses.push(step.settlement.status);
            columns.outcomes.push(step.settlement.outcome.as_deref());
            columns.stop_reasons.push(step.settlement.stop_reason.as_deref());
            columns.requests.push(step.request.as_deref());
            columns.recorded_message_seqs.push(step.recorded_message_seq);
            columns.event_counts.push(count(step.events.len()));
            columns.message_counts.push(count(step.messages.len()));
        }
        columns
    }
}

/// What the model requests of the steps used.
#[derive(Default)]
pub(super) struct UsageColumns {
    pub(super) model_requests: Vec<i32>,
    pub(super) input_tokens: Vec<i64>,
    pub(super) cache_creation_input_tokens: Vec<i64>,
    pub(super) cache_read_input_tokens: Vec<i64>,
    pub(super) output_tokens: Vec<i64>,
    pub(super) cache_creation_1h_input_tokens: Vec<i64>,
    pub(super) thinking_tokens: Vec<i64>,
    pub(super) web_search_requests: Vec<i64>,
    pub(super) web_fetch_requests: Vec<i64>,
    pub(super) cost: Vec<Option<i64>>,
}

impl UsageColumns {
    fn of(steps: &[&EncodedStep]) -> Self {
        let mut columns = Self::default();
        for step in steps {
            let usage = &step.usage;
            columns.model_requests.push(i32::from(step.is_answered));
            columns.input_tokens.push(usage.input_tokens);
            columns.cache_creation_input_tokens.push(usage.cache_creation_input_tokens);
            columns.cache_read_input_tokens.push(usage.cache_read_input_tokens);
            columns.output_tokens.push(usage.output_tokens);
            columns.cache_creation_1h_input_tokens.push(usage.cache_creation_1h_input_tokens);
            columns.thinking_tokens.push(usage.thinking_tokens);
            columns.web_search_requests.push(usage.web_search_requests);
            columns.web_fetch_requests.push(usage.web_fetch_requests);
            columns.cost.push(step.cost);
        }
        columns
    }
}

/// Appended messages.
#[derive(Default)]
pub(super) struct MessageColumns<'a> {
    pub(super) steps: Vec<i64>,
    pub(super) positions: Vec<i32>,
    pub(super) roles: Vec<&'static str>,
    pub(super) ids: Vec<&'a str>,
    pub(super) contents: Vec<&'a str>,
    pub(super) models: Vec<Option<&'a str>>,
    pub(super) stop_reasons: Vec<Option<&'a str>>,
    pub(super) usages: Vec<Option<&'a str>>,
    pub(super) stop_sequences: Vec<Option<&'a str>>,
    pub(super) event_counts: Vec<i32>,
}

impl<'a> MessageColumns<'a> {
    fn of(steps: &[&'a EncodedStep]) -> Self {
        let mut columns = Self::default();
        for (n, position, message) in rows(steps, |step| &step.messages) {
            columns.push(n, position, message);
        }
        columns
    }

    fn push(&mut self, n: i64, position: i32, message: &'a EncodedMessage) {
        self.steps.push(n);
        self.positions.push(position);
        self.roles.push(message.role);
        self.ids.push(&message.id);
        self.contents.push(&message.content);
        self.models.push(message.model.as_deref());
        self.stop_reasons.push(message.stop_reason.as_deref());
        self.usages.push(message.usage.as_deref());
        self.stop_sequences.push(message.stop_sequence.as_deref());
        self.event_counts.push(count(message.event_count));
    }
}

/// Planned calls.
#[derive(Default)]
pub(super) struct PlannedColumns<'a> {
    pub(super) steps: Vec<i64>,
    pub(super) positions: Vec<i32>,
    pub(super) ids: Vec<&'a str>,
    pub(super) names: Vec<&'a str>,
    pub(super) states: Vec<&'static str>,
    pub(super) results: Vec<Option<&'a str>>,
    pub(super) executions: Vec<i32>,
    pub(super) durations: Vec<i64>,
    pub(super) error_types: Vec<Option<&'static str>>,
    pub(super) sandboxes: Vec<Option<&'static str>>,
    pub(super) sources: Vec<Option<&'a str>>,
}

impl<'a> PlannedColumns<'a> {
    fn of(steps: &[&'a EncodedStep]) -> Self {
        let mut columns = Self::default();
        for (n, position, planned) in rows(steps, |step| &step.planned) {
            columns.push(n, position, planned);
        }
        columns
    }

    fn push(&mut self, n: i64, position: i32, planned: &'a EncodedPlan) {
        self.steps.push(n);
        self.positions.push(position);
        self.ids.push(&planned.id);
        self.names.push(&planned.name);
        let end = planned.end.as_ref();
        self.states.push(end.map_or(CallState::Planned.as_str(), |end| end.state));
        self.results.push(end.and_then(|end| end.result.as_deref()));
        self.executions.push(end.map_or(0, |end| i32::from(end.is_execution)));
        self.durations.push(end.map_or(0, |end| end.duration_ms));
        self.error_types.push(end.and_then(|end| end.error_type));
        self.sandboxes.push(end.and_then(|end| end.sandbox));
        self.sources.push(end.and_then(|end| end.sources.as_deref()));
    }
}

/// Changed rows of the ledger.
#[derive(Default)]
pub(super) struct CallColumns<'a> {
    pub(super) steps: Vec<i64>,
    pub(super) ids: Vec<&'a str>,
    pub(super) states: Vec<&'static str>,
    pub(super) results: Vec<Option<&'a str>>,
    pub(super) executions: Vec<i32>,
    pub(super) hashes_before: Vec<Option<&'a [u8]>>,
    pub(super) hashes_after: Vec<Option<&'a [u8]>>,
    pub(super) change_paths: Vec<Option<&'a str>>,
    pub(super) change_results: Vec<Option<&'a str>>,
    pub(super) error_types: Vec<Option<&'static str>>,
    pub(super) awaits: Vec<Option<&'static str>>,
    pub(super) answer_ins: Vec<Option<f64>>,
    pub(super) input_hashes: Vec<Option<&'a [u8]>>,
    pub(super) sandboxes: Vec<Option<&'static str>>,
    pub(super) wait_reasons: Vec<Option<&'a str>>,
    pub(super) diffs: Vec<Option<&'a str>>,
    pub(super) sources: Vec<Option<&'a str>>,
    pub(super) sub_agent_runs: Vec<Option<Uuid>>,
    pub(super) durations: Vec<i64>,
    pub(super) contents: Vec<Option<&'a str>>,
}

impl<'a> CallColumns<'a> {
    fn of(steps: &[&'a EncodedStep]) -> Self {
        let mut columns = Self::default();
        for (n, _, call) in rows(steps, |step| &step.calls) {
            columns.push(n, call);
        }
        columns
    }

    fn push(&mut self, n: i64, call: &'a EncodedCall) {
        self.steps.push(n);
        self.ids.push(&call.id);
        self.states.push(call.state);
        self.results.push(call.result.as_deref());
        self.executions.push(i32::from(call.is_execution));
        self.hashes_before.push(call.hash_before.as_deref());
        self.hashes_after.push(call.hash_after.as_deref());
        self.change_paths.push(call.change_path.as_deref());
        self.change_results.push(call.change_result.as_deref());
        self.error_types.push(call.error_type);
        self.awaits.push(call.awaits);
        self.answer_ins.push(call.answer_in);
        self.input_hashes.push(call.input_hash.as_deref());
        self.sandboxes.push(call.sandbox);
        self.wait_reasons.push(call.wait_reason.as_deref());
        self.diffs.push(call.diff.as_deref());
        self.sources.push(call.sources.as_deref());
        self.sub_agent_runs.push(call.sub_agent_run.map(RunId::as_uuid));
        self.durations.push(call.duration_ms);
        self.contents.push(call.content.as_deref());
    }
}

/// Appended events.
#[derive(Default)]
pub(super) struct EventColumns<'a> {
    pub(super) steps: Vec<i64>,
    pub(super) positions: Vec<i32>,
    pub(super) ids: Vec<&'a str>,
    pub(super) kinds: Vec<&'static str>,
    pub(super) bodies: Vec<&'a str>,
}

impl<'a> EventColumns<'a> {
    fn of(steps: &[&'a EncodedStep]) -> Self {
        let mut columns = Self::default();
        for (n, position, event) in rows(steps, |step| &step.events) {
            columns.steps.push(n);
            columns.positions.push(position);
            columns.ids.push(&event.id);
            columns.kinds.push(event.kind);
            columns.bodies.push(&event.body);
        }
        columns
    }
}

/// Files that the model has read.
#[derive(Default)]
pub(super) struct ReadColumns<'a> {
    pub(super) steps: Vec<i64>,
    pub(super) paths: Vec<&'a str>,
    pub(super) hashes: Vec<&'a [u8]>,
}

impl<'a> ReadColumns<'a> {
    fn of(steps: &[&'a EncodedStep]) -> Self {
        let mut columns = Self::default();
        for (n, _, (path, hash)) in rows(steps, |step| &step.reads) {
            columns.steps.push(n);
            columns.paths.push(path);
            columns.hashes.push(hash);
        }
        columns
    }
}

/// The rows of steps: the position of the step, from 1, the position in the step, from 1, and the row.
fn rows<'a, T: 'a>(
    steps: &[&'a EncodedStep],
    of: impl Fn(&'a EncodedStep) -> &'a [T],
) -> impl Iterator<Item = (i64, i32, &'a T)> {
    (1..).zip(steps).flat_map(move |(n, step)| {
        (1..).zip(of(step)).map(move |(position, row)| (n, position, row))
    })
}

fn count(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}
