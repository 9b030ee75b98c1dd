//! Results of calls that the client runs.

use std::collections::HashSet;

use serde_json::value::RawValue;
use sqlx::PgConnection;

use super::effect::{AnswerEffect, AnsweredRun, answer};
use super::result_content::{self, ResultContent};
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::domain::permission::Awaits;
use crate::domain::tool_error::Handling;
use crate::service::content::{ContentTotals, check_model_support};
use crate::service::error::{Error, FieldError};
use crate::service::state::Service;
use crate::store::decisions::{LockedCall, NewResult, finish, lock_calls};
use crate::store::files::resolve;
use crate::store::media::list_contents;
use crate::store::sessions::find;

/// The result of one call, before validation.
#[derive(Debug)]
pub(crate) struct ToolResultInput {
    /// A JSON pointer to the result.
    pub(crate) pointer: String,
    /// The model's own id of the call.
    pub(crate) tool_use_id: String,
    /// The content: a text or blocks.
    pub(crate) content: Option<Box<RawValue>>,
    /// True if the call failed.
    pub(crate) is_error: bool,
}

/// The valid result of one call.
#[derive(Debug)]
pub(crate) struct ParsedResult {
    pointer: String,
    tool_use_id: String,
    is_error: bool,
    content: ResultContent,
}

/// Validates results. `id_member` is the name of the member with the id of the call.
pub(crate) fn parse_results(
    results: Vec<ToolResultInput>,
    id_member: &str,
) -> Result<Vec<ParsedResult>, Error> {
    let mut errors = Vec::new();
    let mut parsed = Vec::new();
    let mut seen = HashSet::new();
    for result in results {
        let ToolResultInput { pointer, tool_use_id, content, is_error } = result;
        let at = |member: &str| format!("{pointer}/{member}");
        if !seen.insert(tool_use_id.clone()) {
            errors.push(FieldError::new(at(id_member), "is answered twice"));
        }
        match result_content::parse(content.as_deref(), &at("content")) {
            // The model would refuse it, and with it every later request of the session.
            Ok(content) if is_error && content.has_media => errors.push(FieldError::new(
                at("content"),
                "has more than text, which is not allowed in an error",
            )),
            Ok(content) => {
                parsed.push(ParsedResult { pointer, tool_use_id, is_error, content });
            }
            Err(content_errors) => errors.extend(content_errors),
        }
    }
    Error::if_any(errors)?;
    Ok(parsed)
}

/// Records the results of calls, all of them or none.
///
/// The first result of a call is final. The same result again has no effect; another one is refused.
pub(crate) async fn add_tool_results(
    service: &Service,
    tenant: TenantId,
    session_id: SessionId,
    results: &[ParsedResult],
) -> Result<AnsweredRun, Error> {
    check_for_model(service, tenant, session_id, results).await?;
    let results = ResultSet { service, tenant, session_id, results, pointer: "/results" };
    answer(service, tenant, session_id, async |conn| results.record(conn).await).await
}

/// Refuses media that the session does not accept.
pub(in crate::service) async fn check_for_model(
    service: &Service,
    tenant: TenantId,
    session_id: SessionId,
    results: &[ParsedResult],
) -> Result<(), Error> {
    let media = results.iter().filter(|result| result.content.has_media);
    let media = media.filter_map(|result| {
        Some((format!("{}/content", result.pointer), result.content.content.as_deref()?))
    });
    let media: Vec<(String, &str)> = media.collect();
    if media.is_empty() {
        return Ok(());
    }
    let session =
        service.pool.with(tenant, async |conn| find(conn, tenant, session_id).await).await?;
    let session = session.ok_or_else(|| Error::SessionNotFound(session_id.to_string()))?;
    let models = &service.defaults.model_rules.models;
    check_model_support(models, &session.settings, &media).await
}

/// The results of one request.
#[derive(Debug)]
pub(in crate::service) struct ResultSet<'a> {
    pub(in crate::service) service: &'a Service,
    pub(in crate::service) tenant: TenantId,
    pub(in crate::service) session_id: SessionId,
    pub(in crate::service) results: &'a [ParsedResult],
    /// The pointer of errors that concern all results together.
    pub(in crate::service) pointer: &'a str,
}

impl ResultSet<'_> {
    /// Records the results in the caller's transaction.
    pub(in crate::service) async fn record(
        &self,
        conn: &mut PgConnection,
    ) -> Result<AnswerEffect, Error> {
        // The database cannot store NUL, so an id with a NUL names no call.
        let ids = self.results.iter().map(|result| result.tool_use_id.clone());
        let ids: Vec<String> = ids.filter(|id| !id.contains('\0')).collect();
        let calls = lock_calls(conn, self.tenant, self.session_id, &ids).await?;
        let calls = calls.ok_or_else(|| Error::SessionNotFound(self.session_id.to_string()))?;
        self.check_totals(conn, &calls).await?;
        let mut events = Vec::new();
        let mut open: Option<&LockedCall> = None;
        let mut last_run: Option<RunId> = None;
        for result in self.results {
            let call = result.call(&calls)?;
            last_run = Some(call.run_id);
            if let Some(event) = result.record(conn, call).await? {
                events.push(event);
                open = Some(call);
            }
        }
        match (open, last_run) {
            (Some(call), _) => AnswerEffect::record(conn, call, &events).await,
            (None, Some(run_id)) => {
                AnswerEffect::repeated(conn, self.session_id, run_id, &ids).await
            }
            (None, None) => Err(Error::internal("a request without results")),
        }
    }

    /// Refuses results that exceed a limit together with the content of their session.
    async fn check_totals(
        &self,
        conn: &mut PgConnection,
        calls: &[LockedCall],
    ) -> Result<(), Error> {
        let is_open = |result: &&ParsedResult| {
            calls.iter().any(|call| call.tool_use_id == result.tool_use_id && call.is_open())
        };
        let new = self.results.iter().filter(is_open).filter(|result| result.content.has_media);
        let new: Vec<String> = new.filter_map(|result| result.content.content.clone()).collect();
        if new.is_empty() {
            return Ok(());
        }
        let session = find(conn, self.tenant, self.session_id).await?;
        let session = session.ok_or_else(|| Error::SessionNotFound(self.session_id.to_string()))?;
        let models = &self.service.defaults.model_rules.models;
        let max_bytes = models.max_message_bytes(session.settings.model_ref());
        let mut before = list_contents(conn, self.tenant, self.session_id).await?;
        resolve(conn, before.iter_mut().collect()).await?;
        ContentTotals::check(before, new, (max_bytes, self.pointer)).await
    }
}

impl ParsedResult {
    /// The call of this result, which must be one that the client runs.
    fn call<'a>(&self, calls: &'a [LockedCall]) -> Result<&'a LockedCall, Error> {
        let call = calls.iter().find(|call| call.tool_use_id == self.tool_use_id);
        if call.is_some_and(LockedCall::may_still_wait) {
            return Err(Error::CallNotWaiting(self.tool_use_id.clone()));
        }
        let call = call.filter(|call| call.awaits == Some(Awaits::Client));
        call.ok_or_else(|| Error::ToolCallNotFound(self.tool_use_id.clone()))
    }

    /// Records the result, and returns its event; none if the call has this result already.
    async fn record(
        &self,
        conn: &mut PgConnection,
        call: &LockedCall,
    ) -> Result<Option<NewEvent>, Error> {
        let ResultContent { text, content, summary, .. } = &self.content;
        let new = NewResult { text, content: content.as_deref(), is_error: self.is_error };
        if call.is_open() {
            finish(conn, call, &new).await?;
            return Ok(Some(NewEvent::new(&EventBody::UserCustomToolResult {
                custom_tool_use_id: self.tool_use_id.clone(),
                content: summary.clone(),
                is_error: self.is_error,
                error_type: new.error_type(),
                handling: self.is_error.then(|| Handling::of(new.error_type())),
            })));
        }
        let is_same = call.state == new.state()
            && call.result.as_deref() == Some(text)
            && call.content == *content;
        if is_same {
            return Ok(None);
        }
        if call.is_overdue {
            return Err(Error::ToolResultExpired(self.tool_use_id.clone()));
        }
        Err(Error::AlreadyResolved(self.tool_use_id.clone()))
    }
}
