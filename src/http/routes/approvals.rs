//! Approvals: calls that somebody must decide on, and the decisions.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sqlx::{Connection as _, PgConnection};

use super::answering::{Met, end};
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::pending::PendingCall;
use crate::domain::permission::{Awaits, Decision, Rule};
use crate::domain::tool::ToolCall;
use crate::domain::word::{word, words};
use crate::http::auth::Caller;
use crate::http::error::{ApiError, FieldError, Problem};
use crate::http::extract::json_body::JsonBody;
use crate::http::extract::path::{CallPath, SessionPath};
use crate::http::resources::{Page, RunResource};
use crate::http::server::deadline::in_time;
use crate::http::state::Api;
use crate::service::Error;
use crate::service::lookup::newest_event;
use crate::service::session_settings::is_readable_object;
use crate::store::decisions::{
    LockedCall, NewDecision, decide, find_input, list_pending, list_remembered, lock_calls,
    remember,
};
use crate::tools::policy::{remember as exact_rule, visible};

/// A call that somebody must decide on.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct ApprovalResource {
    /// `approval`.
    r#type: &'static str,
    /// The model's own id of the call.
    tool_use_id: String,
    /// The tool's name.
    name: String,
    /// The input as the model wrote it.
    #[schema(value_type = Object)]
    input: Box<RawValue>,
    /// The input for people: characters that are not seen, or that change how others are seen,
    /// are written as escapes.
    display: String,
    /// Why somebody is asked, if the policy says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// What the call would change of a file, as a unified diff, with the same escapes. What is
    /// changed is what the file is when the call runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
    /// When the call gets its default answer.
    #[schema(value_type = String, format = DateTime)]
    answer_by: Timestamp,
}

impl From<PendingCall> for ApprovalResource {
    fn from(call: PendingCall) -> Self {
        Self {
            r#type: "approval",
            display: visible(call.input.get()).into_owned(),
            reason: call.reason.map(|reason| visible(&reason).into_owned()),
            diff: call.diff.map(|diff| visible(&diff).into_owned()),
            tool_use_id: call.tool_use_id,
            name: call.name,
            input: call.input,
            answer_by: call.answer_by,
        }
    }
}

/// Lists the calls that wait for a decision, in the order of the calls.
#[utoipa::path(
    get, path = "/sessions/{session_id}/approvals", operation_id = "list_approvals", tag = "approvals",
    params(("session_id" = String, Path, description = "The session.")),
    responses(
        (status = 200, description = "All of them.", body = Page<ApprovalResource>),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn list_approvals(
    State(api): State<Api>,
    caller: Caller,
    path: SessionPath,
) -> Result<Json<Page<ApprovalResource>>, ApiError> {
    let SessionPath(session_id) = path;
    newest_event(&api.service, caller.tenant, session_id).await?;
    let mut conn = api.pool.acquire_as(caller.tenant).await?;
    let pending = list_pending(&mut conn, caller.tenant, session_id).await?;
    conn.give_back();
    let waits = pending.into_iter().filter(|call| call.awaits == Awaits::Approval);
    let data = waits.map(ApprovalResource::from).collect();
    Ok(Json(Page::whole(data)))
}

/// What is decided on a call.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct DecideCall {
    /// Whether the call may run.
    #[serde(deserialize_with = "word")]
    pub(super) decision: Decision,
    /// Why not, for the model; at most 2000 characters. Only with `deny`.
    #[schema(max_length = 2000)]
    pub(super) message: Option<String>,
    /// What runs in place of the model's input. It must fit the tool's schema. Only with `allow`.
    #[schema(value_type = Option<Object>)]
    pub(super) input: Option<Box<RawValue>>,
    /// `session`: calls like this one run without asking from now on. For commands that is this
    /// very command, for files this very file, for other tools every call of the tool. Only with
    /// `allow`, and not together with `input`. 422 if no rule can stand for this call and no
    /// other.
    #[serde(default, deserialize_with = "words")]
    pub(super) remember: Option<Remember>,
}

/// For how long a decision holds.
#[derive(Debug, Clone, Copy, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum Remember {
    /// As long as the session.
    Session,
}

/// Characters of a reason.
const MAX_MESSAGE: usize = 2000;

impl DecideCall {
    pub(super) fn check(&self) -> Result<(), ApiError> {
        let mut errors = Vec::new();
        let mut refuse = |is_wrong: bool, pointer: &str, message: &str| {
            if is_wrong {
                let (pointer, message) = (pointer.to_owned(), message.to_owned());
                errors.push(FieldError { pointer, message });
            }
        };
        let is_deny = self.decision == Decision::Deny;
        let message = self.message.as_deref().unwrap_or_default();
        let is_long = message.chars().count() > MAX_MESSAGE;
        refuse(self.message.is_some() && !is_deny, "/message", "goes with deny only");
        refuse(is_long, "/message", "is longer than 2000 characters");
        refuse(message.chars().any(is_trick), "/message", "has characters that are not seen");
        let input = self.input.as_deref().map(RawValue::get);
        refuse(input.is_some() && is_deny, "/input", "goes with allow only");
        let is_odd = input.is_some_and(|input| !is_readable_object(input));
        refuse(is_odd, "/input", "is not an object, or is nested deeper than 64");
        refuse(self.remember.is_some() && is_deny, "/remember", "goes with allow only");
        let is_edited = self.remember.is_some() && input.is_some();
        refuse(is_edited, "/remember", "does not go together with an input of its own");
        if errors.is_empty() { Ok(()) } else { Err(ApiError::Service(Error::Validation(errors))) }
    }

    /// Whether the same was decided before.
    fn repeats(&self, call: &LockedCall) -> bool {
        call.decision == Some(self.decision)
            && call.decision_message.as_deref() == self.message()
            && call.input.as_deref() == self.input.as_deref().map(RawValue::get)
    }

    fn message(&self) -> Option<&str> {
        self.message.as_deref().filter(|message| !message.trim().is_empty())
    }
}

/// What has no place in a reason. Joiners have: some scripts cannot be written without.
fn is_trick(c: char) -> bool {
    let is_line = matches!(c, '\n' | '\t');
    (c.is_control() && !is_line)
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e0fff}')
}

/// Decides on a call that waits for an approval.
///
/// The first decision counts. The same one again gets the same answer; another one 409. What runs
/// is what was decided on, byte for byte: the model's input, or the one that came with the
/// decision.
#[utoipa::path(
    post, path = "/sessions/{session_id}/approvals/{tool_use_id}", operation_id = "decide_approval", tag = "approvals",
    params(("session_id" = String, Path, description = "The session."),
           ("tool_use_id" = String, Path, description = "The model's id of the call.")),
    request_body = DecideCall,
    responses(
        (status = 202, description = "Decided. The run goes on when no other call of it waits.", body = RunResource,
         headers(("idempotency-replayed" = String, description = "`true` for a repeated decision."))),
        (status = 200, description = "The same was decided before, and the run has settled.", body = RunResource),
        (status = 400, description = "`bad_json`, `body_incomplete`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`, `approval_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`already_resolved`: something else was decided, or the run is over. `call_not_waiting`: not yet, calls before it are under way.", body = Problem, content_type = "application/problem+json"),
        (status = 410, description = "`approval_expired`: the call has got its default answer.", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn decide_approval(
    State(api): State<Api>,
    caller: Caller,
    path: CallPath,
    body: JsonBody<DecideCall>,
) -> Result<Response, ApiError> {
    let CallPath(session_id, tool_use_id) = path;
    let JsonBody(wanted) = body;
    wanted.check()?;
    let tenant = caller.tenant;
    let (tool_use_id, wanted) = (&tool_use_id, &wanted);
    let deciding = Deciding { api: &api, tenant, session_id, tool_use_id, wanted };
    let answered = async {
        let mut conn = api.pool.acquire_as(caller.tenant).await?;
        let mut transaction = conn.begin().await?;
        let met = deciding.meet(&mut transaction).await;
        let met = end(transaction, met).await?;
        conn.give_back();
        met?.respond(&api, tenant, session_id).await
    };
    in_time(answered).await
}

/// A decision on its way to its call.
pub(super) struct Deciding<'a> {
    pub(super) api: &'a Api,
    pub(super) tenant: TenantId,
    pub(super) session_id: SessionId,
    pub(super) tool_use_id: &'a String,
    pub(super) wanted: &'a DecideCall,
}

impl Deciding<'_> {
    /// Decides on the call in the caller's transaction.
    pub(super) async fn meet(&self, conn: &mut PgConnection) -> Result<Met, ApiError> {
        let ids = std::slice::from_ref(self.tool_use_id);
        let calls = lock_calls(conn, self.tenant, self.session_id, ids).await?;
        let calls = calls.ok_or_else(|| {
            ApiError::Service(Error::SessionNotFound(self.session_id.to_string()))
        })?;
        if calls.iter().any(LockedCall::may_wait_yet) {
            return Err(ApiError::Service(Error::CallNotWaiting(self.tool_use_id.clone())));
        }
        let asked = calls.into_iter().find(|call| call.awaits == Some(Awaits::Approval));
        let call = asked
            .ok_or_else(|| ApiError::Service(Error::ApprovalNotFound(self.tool_use_id.clone())))?;
        if call.is_open() {
            return self.decide(conn, &call).await;
        }
        if call.decision.is_none() && call.is_overdue {
            return Err(ApiError::Service(Error::ApprovalExpired(self.tool_use_id.clone())));
        }
        if self.wanted.repeats(&call) && self.is_remembered(conn, &call).await? {
            return Ok(Met::repeated(call.run_id));
        }
        Err(ApiError::Service(Error::AlreadyResolved(self.tool_use_id.clone())))
    }

    async fn decide(&self, conn: &mut PgConnection, call: &LockedCall) -> Result<Met, ApiError> {
        let DecideCall { decision, input, remember: memory, .. } = self.wanted;
        let (decision, input) = (*decision, input.as_deref());
        if let Some(input) = input {
            self.check_input(call, input)?;
        }
        if memory.is_some() {
            self.remember(conn, call).await?;
        }
        let message = self.wanted.message();
        decide(conn, call, &NewDecision { decision, message, input }).await?;
        let event = EventBody::UserToolConfirmation {
            tool_use_id: call.tool_use_id.clone(),
            result: decision,
            deny_message: message.map(str::to_owned),
            input: input.map(ToOwned::to_owned),
        };
        Met::recorded(conn, call, &[NewEvent::new(&event)]).await
    }

    fn check_input(&self, call: &LockedCall, input: &RawValue) -> Result<(), ApiError> {
        let problems = self.api.tools.input_problems(&call.name, input);
        let error = |(place, message)| FieldError { pointer: format!("/input{place}"), message };
        let errors: Vec<FieldError> = problems.into_iter().map(error).collect();
        if errors.is_empty() { Ok(()) } else { Err(ApiError::Service(Error::Validation(errors))) }
    }

    async fn remember(&self, conn: &mut PgConnection, call: &LockedCall) -> Result<(), ApiError> {
        let Some(rule) = rule_for(conn, call).await? else {
            let why = "cannot be done: no rule can stand for this call and no other";
            return Err(ApiError::field("/remember", why));
        };
        if remember(conn, call.session_id, rule).await? {
            return Ok(());
        }
        Err(ApiError::field("/remember", "cannot be done: the session remembers too much already"))
    }

    /// Whether what is to be remembered is remembered.
    async fn is_remembered(
        &self,
        conn: &mut PgConnection,
        call: &LockedCall,
    ) -> Result<bool, ApiError> {
        if self.wanted.remember.is_none() {
            return Ok(true);
        }
        let rule = rule_for(conn, call).await?;
        let rules = list_remembered(conn, call.session_id).await?;
        Ok(rule.is_some_and(|rule| rules.contains(&rule)))
    }
}

/// The rule that stands for a call, and for no other.
async fn rule_for(conn: &mut PgConnection, call: &LockedCall) -> Result<Option<Rule>, ApiError> {
    let Some(input) = find_input(conn, call).await? else { return Ok(None) };
    let (tool_use_id, name) = (call.tool_use_id.clone(), call.name.clone());
    Ok(exact_rule(&ToolCall { tool_use_id, name, input }))
}
