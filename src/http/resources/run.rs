//! The run as clients read it.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::domain::ids::{RunId, SessionId};
use crate::domain::limits::LimitKind;
use crate::domain::outcome::{Outcome, RunError};
use crate::domain::output_schema::{OutputError, OutputVerdict};
use crate::domain::pending_call::PendingCall;
use crate::domain::run::Run;
use crate::domain::run_log::{LoggedCall, OutputFile};
use crate::domain::run_status::RunStatus;
use crate::domain::source::Source;
use crate::domain::stop_reason::StopReason;
use crate::domain::sub_agent::SubAgentSummary;
use crate::domain::usage::Usage;
use crate::http::server::forwarded::link;

/// A run: the work that one user message starts.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct RunResource {
    /// `run`.
    r#type: &'static str,
    /// The id of the run.
    #[schema(value_type = String, example = "run_0193a7c2b8f07d3c9e41f2a6b5c8d7e0")]
    id: RunId,
    /// The id of the session.
    #[schema(value_type = String)]
    session_id: SessionId,
    /// The id of the user message.
    message_id: String,
    /// The run that this one retries; absent if it is not a retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    retry_of: Option<RunId>,
    /// The current status.
    status: RunStatus,
    /// The number of the newest event of the session that the other members reflect.
    seq: i64,
    /// The position in the queue of the session, from 1; absent if the run is not queued.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_position: Option<i64>,
    /// The path of the event stream of the run. In the reply to a decision or result, the stream
    /// continues after the events of that request.
    stream_url: String,
    /// The tool calls that wait for a decision or a result; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pending: Vec<PendingCall>,
    /// The reason why the run stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<StopReason>,
    /// The limit at which the model was asked for its final answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    limited_by: Option<LimitKind>,
    /// `true` if the model was asked for its final answer at a limit, with its tools forbidden; absent
    /// until the run has settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    limited: Option<bool>,
    /// The answer: the text of the last assistant message.
    #[serde(skip_serializing_if = "Option::is_none")]
    output_text: Option<String>,
    /// `true` if the model finished without text.
    #[serde(skip_serializing_if = "Option::is_none")]
    empty: Option<bool>,
    /// The answer as JSON, if the session has an `output_schema` and the answer matches it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    output: Option<Box<RawValue>>,
    /// The reason why the answer does not match the `output_schema` of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    output_error: Option<OutputError>,
    /// The sources that tools reported, without duplicates, in the order of the calls. Absent without
    /// sources, and in lists of runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sources: Vec<Source>,
    /// The files that code execution wrote on the model provider's servers, by the provider's ids.
    /// Absent without files, and in lists of runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    output_files: Vec<OutputFile>,
    /// The first 1,000 tool calls, in the order of the model. Absent without tool calls, and in lists
    /// of runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_log: Vec<LoggedCall>,
    /// The first 1,000 sub-agents that the run started, in the order of the calls. Their usage is not
    /// part of `usage`. Absent without sub-agents, and in lists of runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sub_agents: Vec<SubAgentSummary>,
    /// The error that failed the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<RunError>,
    /// `true` if the run was imported: it ran elsewhere and used nothing here. Absent otherwise.
    #[serde(skip_serializing_if = "is_false")]
    imported: bool,
    /// The number of model requests.
    model_requests: i32,
    /// The token usage of these requests.
    usage: Usage,
    /// The cost of these requests in micro-dollars; absent if a price is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<i64>,
    /// The time at which the run was accepted.
    #[schema(value_type = String, format = DateTime)]
    #[serde(serialize_with = "crate::domain::rfc3339::time")]
    created_at: Timestamp,
    /// The time at which a worker first claimed the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(serialize_with = "crate::domain::rfc3339::optional_time")]
    started_at: Option<Timestamp>,
    /// The time at which the run settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(serialize_with = "crate::domain::rfc3339::optional_time")]
    finished_at: Option<Timestamp>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde takes")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// The path of a run.
pub(in crate::http) fn run_path(session_id: SessionId, run_id: RunId) -> String {
    link(format_args!("/sessions/{session_id}/runs/{run_id}"))
}

impl From<Run> for RunResource {
    fn from(run: Run) -> Self {
        let is_completed = run.status == RunStatus::Completed;
        let status = if run.is_resumable() { RunStatus::Running } else { run.status };
        let outcome = run.outcome.as_ref();
        let is_empty = |outcome: &Outcome| outcome.output_text.is_empty();
        Self {
            r#type: "run",
            id: run.id,
            session_id: run.session_id,
            message_id: run.message_id,
            retry_of: run.retry_of,
            status,
            seq: run.seq,
            queue_position: run.queue_position,
            stream_url: format!("{}/stream", run_path(run.session_id, run.id)),
            pending: run.pending,
            limited_by: outcome.and_then(|outcome| outcome.limited),
            limited: outcome.map(|outcome| outcome.limited.is_some()),
            empty: outcome.filter(|_| is_completed).map(is_empty),
            stop_reason: outcome.map(|outcome| outcome.stop_reason.clone()),
            error: outcome.and_then(|outcome| outcome.error.clone()),
            output: outcome.and_then(output),
            output_error: outcome.and_then(|it| it.output.as_ref()?.error().cloned()),
            output_text: run.outcome.filter(|_| is_completed).map(|outcome| outcome.output_text),
            sources: run.log.sources,
            output_files: run.log.output_files,
            tool_log: run.log.calls,
            sub_agents: run.log.sub_agents,
            imported: run.is_imported,
            model_requests: run.model_requests,
            usage: run.usage,
            cost: run.cost,
            created_at: run.created_at,
            started_at: run.started_at,
            finished_at: run.finished_at,
        }
    }
}

/// The answer of a run as JSON, if it matches the schema of the session.
fn output(outcome: &Outcome) -> Option<Box<RawValue>> {
    let fits = outcome.output == Some(OutputVerdict::Fits);
    fits.then(|| serde_json::from_str(&outcome.output_text).ok()).flatten()
}

impl RunResource {
    /// The same run with the path of a stream that continues after this event, if there is one.
    pub(in crate::http) fn streamed_after(mut self, after: Option<i64>) -> Self {
        if let Some(after) = after {
            self.stream_url = format!("{}?after={after}", self.stream_url);
        }
        self
    }

    /// Reports whether the run is in a terminal state.
    pub(in crate::http) fn is_settled(&self) -> bool {
        self.status.is_terminal()
    }
}
