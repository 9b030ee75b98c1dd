//! The documents that clients read.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::domain::agent::AgentVersion;
use crate::domain::budget::Budget;
use crate::domain::context::Context;
use crate::domain::fork::ForkedFrom;
use crate::domain::ids::{RunId, SessionId};
use crate::domain::model::Effort;
use crate::domain::model_options::ServiceTier;
use crate::domain::output_schema::{OutputError, Verdict};
use crate::domain::pending::PendingCall;
use crate::domain::permission::{PermissionMode, Rule};
use crate::domain::run::{LimitKind, Limits, Outcome, Run, RunError, RunStatus, StopReason};
use crate::domain::run_log::LoggedCall;
use crate::domain::session::{Dispatch, Session, SessionStatus};
use crate::domain::source::Source;
use crate::domain::sub_agent::{Parent, StartedAgent};
use crate::domain::system::SystemPrompt;
use crate::domain::usage::Usage;
use crate::http::server::forwarded::link;
use crate::service::session_settings::{ModelMetadata, SessionSubAgent, SessionSystem};
use crate::tools::policy::OperatorPolicy;

/// A page of a list.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct Page<T> {
    /// The items.
    pub(in crate::http) data: Vec<T>,
    /// Whether there are more.
    pub(in crate::http) has_more: bool,
    /// What to pass to read on, in the parameter that this page was asked with (`after`, or
    /// `before` for a page read backwards); absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) next_cursor: Option<String>,
    /// What to pass to read back, in the other one of the two parameters; absent where there is
    /// nothing to read back to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) prev_cursor: Option<String>,
}

impl<T> Page<T> {
    /// A list that is not cut into pages.
    pub(in crate::http) fn whole(data: Vec<T>) -> Self {
        Self { data, has_more: false, next_cursor: None, prev_cursor: None }
    }

    /// Makes a page of at most `limit` from items that were read with one more.
    pub(in crate::http) fn new(
        mut data: Vec<T>,
        limit: i64,
        cursor: impl Fn(&T) -> String,
    ) -> Self {
        let limit = usize::try_from(limit).unwrap_or(0);
        let has_more = data.len() > limit;
        data.truncate(limit);
        let next_cursor = data.last().filter(|_| has_more).map(cursor);
        Self { data, has_more, next_cursor, prev_cursor: None }
    }
}

/// One conversation.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct SessionResource {
    /// `session`.
    r#type: &'static str,
    /// The id.
    #[schema(value_type = String, example = "ses_0193a7c2b8f07d3c9e41f2a6b5c8d7e0")]
    id: SessionId,
    /// A name for people; null if it has none.
    #[schema(required)]
    title: Option<String>,
    /// What it does at the moment.
    status: SessionStatus,
    /// Why it last came to rest; null before its first run has ended.
    #[schema(required)]
    stop_reason: Option<StopReason>,
    /// The agent that it was made as; absent if it was made as none.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<AgentVersion>,
    /// The model that was pinned at its creation.
    model: String,
    /// The system prompt that was pinned: a text, or blocks of text.
    #[schema(value_type = SessionSystem)]
    system: SystemPrompt,
    /// The output budget of one request to the model.
    max_tokens: u32,
    /// The thinking setting; absent for the model's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    thinking: Option<Box<RawValue>>,
    /// Strings that end an answer.
    stop_sequences: Vec<String>,
    /// How much work the model puts into an answer; absent for the model's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<Effort>,
    /// Which capacity requests to the model may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    service_tier: Option<ServiceTier>,
    /// What the model's side is told of the user.
    model_metadata: ModelMetadata,
    /// The schema that answers have to fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    output_schema: Option<Box<RawValue>>,
    /// Names of beta features of the model's API.
    betas: Vec<String>,
    /// How the conversation is kept within the model's window.
    context: Context,
    /// The names of the tools that were pinned, in their order.
    tools: Vec<String>,
    /// The folder that it works in; null for one of its own.
    #[schema(required)]
    workspace: Option<String>,
    /// Where it left the session that it was forked from; absent if it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    forked_from: Option<ForkedFrom>,
    /// The call whose sub-agent works in it; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<Parent>,
    /// The sub-agents that were pinned, besides the general one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sub_agents: Vec<SessionSubAgent>,
    /// The names of those of them that the client runs.
    client_tools: Vec<String>,
    /// Who runs those that the client has not declared.
    dispatch: Dispatch,
    /// The limits of runs that name none.
    limits: Limits,
    /// What it may spend over its whole life.
    budget: Budget,
    /// What becomes of calls that no rule speaks of, at the moment.
    permission_mode: PermissionMode,
    /// The rules that were pinned.
    permissions: Vec<Rule>,
    /// Rules that people made while they decided on calls. They are asked last.
    remembered: Vec<Rule>,
    /// What the client attached.
    #[schema(value_type = Object)]
    metadata: Box<RawValue>,
    /// The live run; null if there is none.
    #[schema(value_type = Option<String>, required)]
    active_run_id: Option<RunId>,
    /// Runs that wait.
    queued: i32,
    /// The number of the newest event.
    last_seq: i64,
    /// Sums over all requests to the model.
    usage: Usage,
    /// What they cost, in micro-dollars; absent where no price is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<i64>,
    /// Whether it is put away: it takes no messages then.
    archived: bool,
    /// When it was put away; absent when it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    archived_at: Option<Timestamp>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When it last changed.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

impl SessionResource {
    pub(in crate::http) fn new(session: Session, operator: &OperatorPolicy) -> Self {
        let status = session.status();
        let pinned = session.settings.permission_mode;
        let tools = session.settings.tool_names();
        let client_tools = session.settings.clients_tool_names();
        let options = *session.settings.model_options;
        Self {
            r#type: "session",
            id: session.id,
            title: session.title,
            status,
            stop_reason: session.stop_reason,
            tools,
            client_tools,
            dispatch: session.settings.dispatch,
            agent: session.settings.agent.map(|agent| *agent),
            model: session.settings.model,
            system: session.settings.system,
            max_tokens: session.settings.max_tokens,
            thinking: session.settings.thinking,
            stop_sequences: session.settings.stop_sequences,
            effort: options.effort,
            service_tier: options.service_tier,
            model_metadata: ModelMetadata { user_id: options.user_id },
            output_schema: options.output_schema,
            betas: options.betas,
            context: *session.settings.context,
            workspace: session.workspace,
            forked_from: session.forked_from,
            parent: session.parent,
            sub_agents: session.settings.sub_agents.into_iter().map(Into::into).collect(),
            limits: session.settings.limits,
            budget: session.settings.budget,
            permission_mode: operator.mode(session.permission_mode, pinned),
            permissions: session.settings.permissions,
            remembered: session.remembered,
            metadata: session.metadata,
            active_run_id: session.active_run_id,
            queued: session.queued,
            last_seq: session.last_seq,
            usage: session.usage,
            cost: session.cost,
            archived: session.archived_at.is_some(),
            archived_at: session.archived_at,
            created_at: session.created_at,
            updated_at: session.updated_at,
        }
    }
}

/// The work that one user message started.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct RunResource {
    /// `run`.
    r#type: &'static str,
    /// The id.
    #[schema(value_type = String, example = "run_0193a7c2b8f07d3c9e41f2a6b5c8d7e0")]
    id: RunId,
    /// The session.
    #[schema(value_type = String)]
    session_id: SessionId,
    /// The user message.
    message_id: String,
    /// Where it stands.
    status: RunStatus,
    /// Its place in the session's queue, from 1; absent when it does not wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_position: Option<i64>,
    /// Where its events stream.
    stream_url: String,
    /// The calls that it waits for somebody to answer; absent when it does not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pending: Vec<PendingCall>,
    /// Why it settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<StopReason>,
    /// The limit at which the model was asked for a final answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    limited_by: Option<LimitKind>,
    /// Whether such a limit was reached; absent before it has settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    limited: Option<bool>,
    /// The answer: all text of the last assistant message.
    #[serde(skip_serializing_if = "Option::is_none")]
    output_text: Option<String>,
    /// Whether the model finished without a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    empty: Option<bool>,
    /// The answer as JSON, if the session has an `output_schema` and the answer fits it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    output: Option<Box<RawValue>>,
    /// Why the answer does not fit the session's `output_schema`.
    #[serde(skip_serializing_if = "Option::is_none")]
    output_error: Option<OutputError>,
    /// What the answer rests on, as the tools name it: in the order of the calls, each once. Absent
    /// where they name nothing, and in lists of runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sources: Vec<Source>,
    /// The calls of tools, in the order in which the model made them, the first 1,000. Absent where
    /// there are none, and in lists of runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_log: Vec<LoggedCall>,
    /// The sub-agents that it has started, in the order of the calls, the first 1,000. What they used
    /// is not among the run's own `usage`. Absent where there are none, and in lists of runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sub_agents: Vec<StartedAgent>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<RunError>,
    /// Whether it came with an import: it was made elsewhere, and used nothing here. Absent where it
    /// was not.
    #[serde(skip_serializing_if = "is_false")]
    imported: bool,
    /// Requests to the model.
    model_requests: i32,
    /// Sums over them.
    usage: Usage,
    /// What they cost, in micro-dollars; absent where no price is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<i64>,
    /// When it was accepted.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When a worker first took it up.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    started_at: Option<Timestamp>,
    /// When it settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    finished_at: Option<Timestamp>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde takes")]
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
        let status = if run.goes_on() { RunStatus::Running } else { run.status };
        let outcome = run.outcome.as_ref();
        let is_empty = |outcome: &Outcome| outcome.output_text.is_empty();
        Self {
            r#type: "run",
            id: run.id,
            session_id: run.session_id,
            message_id: run.message_id,
            status,
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

/// The answer of a run as JSON, if it had to fit a schema and does.
fn output(outcome: &Outcome) -> Option<Box<RawValue>> {
    let fits = outcome.output == Some(Verdict::Fits);
    fits.then(|| serde_json::from_str(&outcome.output_text).ok()).flatten()
}

impl RunResource {
    /// Whether nothing more will happen.
    pub(in crate::http) fn is_settled(&self) -> bool {
        self.status.is_terminal()
    }
}
