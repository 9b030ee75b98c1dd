//! Decisions on calls that wait for an approval.

use serde::Deserialize;
use serde_json::value::RawValue;
use sqlx::PgConnection;

use super::effect::{AnswerEffect, AnsweredRun, answer};
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::pending_call::PendingCall;
use crate::domain::permission::{Awaits, Decision, Rule};
use crate::domain::storable::storable_json;
use crate::domain::tool::ToolCall;
use crate::service::error::{Error, FieldError};
use crate::service::lookup::newest_event;
use crate::service::session_settings::is_readable_object;
use crate::service::state::Service;
use crate::store::decisions::{
    LockedCall, NewDecision, decide, find_input, list_pending, list_remembered, lock_calls,
    remember,
};
use crate::tools::policy::remember as exact_rule;

/// The largest reason of a denial, in characters.
const MAX_MESSAGE: usize = 2000;

/// A decision on a call.
#[derive(Debug)]
pub(crate) struct ApprovalDecision {
    /// True if the call may run.
    pub(crate) decision: Decision,
    /// The reason of a denial, for the model.
    pub(crate) message: Option<String>,
    /// The input that replaces the model's.
    pub(crate) input: Option<Box<RawValue>>,
    /// True if identical calls are allowed from now on.
    pub(crate) remember: Option<Remember>,
}

/// The period for which a decision is remembered.
#[derive(Debug, Clone, Copy, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Remember {
    /// The lifetime of the session.
    Session,
}

impl ApprovalDecision {
    /// Checks everything that does not depend on the call.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        let mut errors = Vec::new();
        let mut refuse_if = |is_wrong: bool, pointer: &str, message: &str| {
            if is_wrong {
                errors.push(FieldError::new(pointer, message));
            }
        };
        let is_deny = self.decision == Decision::Deny;
        let message = self.message.as_deref().unwrap_or_default();
        let is_long = message.chars().count() > MAX_MESSAGE;
        refuse_if(self.message.is_some() && !is_deny, "/message", "is allowed with deny only");
        refuse_if(is_long, "/message", "is longer than 2000 characters");
        let has_hidden = message.chars().any(is_hidden);
        refuse_if(has_hidden, "/message", "has control or invisible characters");
        let input = self.input.as_deref().map(RawValue::get);
        refuse_if(input.is_some() && is_deny, "/input", "is allowed with allow only");
        let is_unreadable = input.is_some_and(|input| !is_readable_object(input));
        refuse_if(is_unreadable, "/input", "is not an object, or is nested deeper than 64");
        let remembers = self.remember.is_some();
        refuse_if(remembers && is_deny, "/remember", "is allowed with allow only");
        let has_nul = input.is_some_and(|input| storable_json(input) != input);
        refuse_if(has_nul, "/input", "has a NUL character");
        let is_edited = remembers && input.is_some();
        refuse_if(is_edited, "/remember", "is not allowed together with input");
        Error::if_any(errors)
    }

    /// Returns true if the call has the same decision already.
    fn repeats(&self, call: &LockedCall) -> bool {
        call.decision == Some(self.decision)
            && call.decision_message.as_deref() == self.message()
            && call.input.as_deref() == self.input.as_deref().map(RawValue::get)
    }

    fn message(&self) -> Option<&str> {
        self.message.as_deref().filter(|message| !message.trim().is_empty())
    }
}

/// Returns true if a character can hide or reorder text. Joiners are allowed, because some scripts
/// need them.
fn is_hidden(c: char) -> bool {
    let is_line = matches!(c, '\n' | '\t');
    (c.is_control() && !is_line)
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e0fff}')
}

/// Lists the calls of a session that wait for an approval, in the order of the calls.
pub(crate) async fn pending_approvals(
    service: &Service,
    tenant: TenantId,
    session_id: SessionId,
) -> Result<Vec<PendingCall>, Error> {
    newest_event(service, tenant, session_id).await?;
    let read = service.pool.with(tenant, async |conn| list_pending(conn, tenant, session_id).await);
    let mut pending = read.await?;
    pending.retain(|call| call.awaits == Awaits::Approval);
    Ok(pending)
}

/// Decides on a call that waits for an approval.
///
/// The first decision is final. The same decision again has no effect; another one is refused.
pub(crate) async fn decide_approval(
    service: &Service,
    tenant: TenantId,
    session_id: SessionId,
    tool_use_id: &String,
    decision: &ApprovalDecision,
) -> Result<AnsweredRun, Error> {
    decision.validate()?;
    let call = DecideCall { service, tenant, session_id, tool_use_id, decision };
    answer(service, tenant, session_id, async |conn| call.record(conn).await).await
}

/// A decision on its call.
#[derive(Debug)]
pub(in crate::service) struct DecideCall<'a> {
    pub(in crate::service) service: &'a Service,
    pub(in crate::service) tenant: TenantId,
    pub(in crate::service) session_id: SessionId,
    pub(in crate::service) tool_use_id: &'a String,
    pub(in crate::service) decision: &'a ApprovalDecision,
}

impl DecideCall<'_> {
    /// Records the decision in the caller's transaction.
    pub(in crate::service) async fn record(
        &self,
        conn: &mut PgConnection,
    ) -> Result<AnswerEffect, Error> {
        let ids = std::slice::from_ref(self.tool_use_id);
        let calls = lock_calls(conn, self.tenant, self.session_id, ids).await?;
        let calls = calls.ok_or_else(|| Error::SessionNotFound(self.session_id.to_string()))?;
        if calls.iter().any(LockedCall::may_still_wait) {
            return Err(Error::CallNotWaiting(self.tool_use_id.clone()));
        }
        let call = calls.into_iter().find(|call| call.awaits == Some(Awaits::Approval));
        let call = call.ok_or_else(|| Error::ApprovalNotFound(self.tool_use_id.clone()))?;
        if call.is_open() {
            return self.record_first(conn, &call).await;
        }
        if call.decision.is_none() && call.is_overdue {
            return Err(Error::ApprovalExpired(self.tool_use_id.clone()));
        }
        if self.decision.repeats(&call) && self.is_remembered(conn, &call).await? {
            return AnswerEffect::repeated(conn, call.session_id, call.run_id, ids).await;
        }
        Err(Error::AlreadyResolved(self.tool_use_id.clone()))
    }

    async fn record_first(
        &self,
        conn: &mut PgConnection,
        call: &LockedCall,
    ) -> Result<AnswerEffect, Error> {
        let ApprovalDecision { decision, input, remember: memory, .. } = self.decision;
        let (decision, input) = (*decision, input.as_deref());
        if let Some(input) = input {
            self.check_input(call, input)?;
        }
        if memory.is_some() {
            remember_call(conn, call).await?;
        }
        let message = self.decision.message();
        decide(conn, call, &NewDecision { decision, message, input }).await?;
        let event = EventBody::UserToolConfirmation {
            tool_use_id: call.tool_use_id.clone(),
            result: decision,
            deny_message: message.map(str::to_owned),
            input: input.map(ToOwned::to_owned),
        };
        AnswerEffect::record(conn, call, &[NewEvent::new(&event)]).await
    }

    fn check_input(&self, call: &LockedCall, input: &RawValue) -> Result<(), Error> {
        let problems = self.service.tools.input_problems(&call.name, input);
        let error = |(pointer, message)| FieldError::new(format!("/input{pointer}"), message);
        Error::if_any(problems.into_iter().map(error).collect())
    }

    /// Returns true if the rule that the decision asks for is remembered.
    async fn is_remembered(
        &self,
        conn: &mut PgConnection,
        call: &LockedCall,
    ) -> Result<bool, Error> {
        if self.decision.remember.is_none() {
            return Ok(true);
        }
        let rule = rule_for(conn, call).await?;
        let rules = list_remembered(conn, call.session_id).await?;
        Ok(rule.is_some_and(|rule| rules.contains(&rule)))
    }
}

async fn remember_call(conn: &mut PgConnection, call: &LockedCall) -> Result<(), Error> {
    let Some(rule) = rule_for(conn, call).await? else {
        let reason = "is not possible: no rule matches this call and no other";
        return Err(Error::field("/remember", reason));
    };
    if remember(conn, call.session_id, rule).await? {
        return Ok(());
    }
    Err(Error::field("/remember", "is not possible: the session has the maximum number of rules"))
}

/// The rule that matches a call and no other, if there is one.
async fn rule_for(conn: &mut PgConnection, call: &LockedCall) -> Result<Option<Rule>, Error> {
    let Some(input) = find_input(conn, call).await? else { return Ok(None) };
    let (tool_use_id, name) = (call.tool_use_id.clone(), call.name.clone());
    Ok(exact_rule(&ToolCall { tool_use_id, name, input }))
}
