//! Requests that the service refuses or cannot serve, independent of the protocol they arrived by.

use std::fmt;

use serde::Serialize;

use super::admission::Overload;
use super::agent_error::AgentError;
use crate::domain::ids::{RunId, SessionId, WebhookId};
use crate::domain::quota::QuotaExceeded;
use crate::store::StoreError;
use crate::tools::workspace::CopyError;

/// A request that the service refuses or cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input is not JSON.
    #[error("the body is not JSON: {0}")]
    BadJson(String),
    /// Members of the input are not valid.
    #[error("the request is not valid: {}", first_message(.0))]
    Validation(Vec<FieldError>),
    /// The tenant has no session of this id.
    #[error("there is no session {0}")]
    SessionNotFound(String),
    /// The tenant has no file of this id, or the session does not refer to it.
    #[error("there is no file {0}")]
    FileNotFound(String),
    /// The history of the session has no reply of this id.
    #[error("the session has no reply of the model with the id {0:?}")]
    MessageNotFound(String),
    /// The session has no run of this id.
    #[error("there is no run {0}")]
    RunNotFound(String),
    /// The run has no model request of this number.
    #[error("the run has no request {0}")]
    RequestNotFound(String),
    /// The tenant has no environment of this id.
    #[error("there is no environment {0}")]
    EnvironmentNotFound(String),
    /// The tenant has no valid browser token of this id.
    #[error("there is no valid browser token {0}")]
    BrowserTokenNotFound(String),
    /// A session of another user has this external id.
    #[error("a session of another user has this external id")]
    ExternalIdTaken,
    /// The tenant has no webhook of this id.
    #[error("there is no webhook {0}")]
    WebhookNotFound(String),
    /// The webhook has no settled delivery of this id.
    #[error("the webhook has no settled delivery {0}")]
    DeliveryNotFound(String),
    /// The tenant has the maximum number of webhooks.
    #[error("there are {0} webhooks already; at most {0} are allowed")]
    TooManyWebhooks(i64),
    /// The webhook is disabled.
    #[error("the webhook is disabled; enable it first")]
    WebhookDisabled,
    /// The webhook has the maximum number of queued test deliveries.
    #[error("too many tests of this webhook are queued already")]
    TooManyTests,
    /// A request that concerns an agent.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// A cursor that names no position of the list.
    #[error("the cursor is not valid: {0}")]
    InvalidCursor(FieldError),
    /// The session has an active run, and the message may not be queued.
    #[error("the session is busy with {active_run_id}")]
    SessionBusy {
        /// The active run, or the first queued one.
        active_run_id: RunId,
    },
    /// The active run of the session waits for answers to its calls.
    #[error("the session waits for decisions or results of the calls of {active_run_id}")]
    ActionRequired {
        /// The active run.
        active_run_id: RunId,
    },
    /// The run cannot be retried.
    #[error("the run {run_id} cannot be retried: {reason}; post a message instead")]
    RunNotRetryable {
        /// The run.
        run_id: RunId,
        /// The rule that it breaks.
        reason: &'static str,
    },
    /// No call of this id waits for an approval.
    #[error("no call {0:?} of this session waits for an approval")]
    ApprovalNotFound(String),
    /// No call of this id is run by the client.
    #[error("no call {0:?} of this session is run by the client")]
    ToolCallNotFound(String),
    /// Calls before this one are still running.
    #[error(
        "the call {0:?} does not wait for a decision or result yet: calls before it are still running; \
         the event session.status_idle reports when it does"
    )]
    CallNotWaiting(String),
    /// The call has another decision or result, or its run has settled.
    #[error("the call {0:?} already has another decision or result, or its run has settled")]
    AlreadyResolved(String),
    /// The deadline for a decision has passed.
    #[error("the deadline for a decision on the call {0:?} has passed")]
    ApprovalExpired(String),
    /// The deadline for a result has passed.
    #[error("the deadline for a result of the call {0:?} has passed")]
    ToolResultExpired(String),
    /// The session's queue is full.
    #[error("the session has {0} queued messages already; at most {0} are allowed")]
    QueueFull(i32),
    /// The session is archived.
    #[error("the session is archived; restore it with PATCH and {{\"archived\": false}}")]
    SessionArchived,
    /// Too many runs are queued, of all tenants or of this one.
    #[error("{0}")]
    Overloaded(Overload),
    /// The key or message id belongs to another message.
    #[error("the idempotency key or message id was used before with another request")]
    IdempotencyKeyReused {
        /// The run of the earlier message.
        run_id: RunId,
    },
    /// The idempotency key belongs to another request.
    #[error("the idempotency key was used before with another request")]
    KeyReused,
    /// Forks share the history of the session.
    #[error("the session has forks that need its history; `?forks=delete` deletes them as well")]
    SessionHasForks(Vec<SessionId>),
    /// A quota of the tenant does not allow the request.
    #[error("{0}")]
    QuotaExceeded(QuotaExceeded),
    /// The workspace is too large to be copied.
    #[error("the session's folder is too large to be copied: {0}")]
    WorkspaceTooLarge(CopyError),
    /// The resource does not have a version that the request expects.
    #[error("the version of the resource is not one that the request expects")]
    VersionMismatch,
    /// The process is stopping.
    #[error("the service is stopping; try again")]
    Draining,
    /// The limit on concurrent copies of workspaces is reached.
    #[error("too many folders are being copied for forks; try again")]
    TooManyCopies,
    /// The limit on concurrent deletions is reached.
    #[error("too many sessions are being deleted; try again")]
    TooManyDeletions,
    /// The limit on concurrent verifications is reached.
    #[error("too many sessions are being verified; try again")]
    TooManyVerifications,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A defect of the service.
    #[error("{0}")]
    Internal(String),
}

fn first_message(errors: &[FieldError]) -> String {
    errors.first().map(FieldError::to_string).unwrap_or_default()
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pointer, parameter, header, message } = self;
        match parameter.as_deref().or(header.as_deref()).unwrap_or(pointer) {
            "" => f.write_str(message),
            name => write!(f, "{name} {message}"),
        }
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

/// A member of the input that is not valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct FieldError {
    /// A JSON pointer to the member; empty for the body as a whole, and if `parameter` or `header`
    /// names what is wrong.
    pub pointer: String,
    /// The name of the query parameter; absent for members of the body and for headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
    /// The name of the request header; absent for members of the body and for query parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// The problem with the member, parameter or header: the rule that it breaks, and what is
    /// allowed.
    pub message: String,
}

impl FieldError {
    /// An error in the member at this pointer.
    pub(crate) fn new(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        let (pointer, message) = (pointer.into(), message.into());
        Self { pointer, parameter: None, header: None, message }
    }

    /// An error in a query parameter; in the whole query if the name is empty.
    pub(crate) fn in_query(parameter: &str, message: impl Into<String>) -> Self {
        let parameter = Some(parameter).filter(|name| !name.is_empty()).map(str::to_owned);
        Self { parameter, ..Self::new("", message) }
    }

    /// An error in a request header.
    pub(crate) fn in_header(name: &str, message: impl Into<String>) -> Self {
        Self { header: Some(name.to_owned()), ..Self::new("", message) }
    }
}

impl Error {
    /// Refuses one member.
    pub(crate) fn field(pointer: &str, message: impl Into<String>) -> Self {
        Self::Validation(vec![FieldError::new(pointer, message)])
    }

    /// The tenant has no webhook with this id.
    pub(super) fn webhook_not_found(id: WebhookId) -> Self {
        Self::WebhookNotFound(id.to_string())
    }

    /// A defect of the service with this cause.
    #[expect(clippy::needless_pass_by_value, reason = "the signature that map_err expects")]
    pub(crate) fn internal(cause: impl ToString) -> Self {
        Self::Internal(cause.to_string())
    }

    /// Fails with the given errors, if there are any.
    pub(crate) fn if_any(errors: Vec<FieldError>) -> Result<(), Self> {
        if errors.is_empty() { Ok(()) } else { Err(Self::Validation(errors)) }
    }

    /// The same error, for members of a value at this pointer.
    pub(crate) fn under(self, pointer: &str) -> Self {
        let Self::Validation(mut errors) = self else { return self };
        for error in &mut errors {
            error.pointer.insert_str(0, pointer);
        }
        Self::Validation(errors)
    }

    /// The same error, for members of a value that is at another pointer.
    pub(crate) fn moved(self, from: &str, to: &str) -> Self {
        let Self::Validation(mut errors) = self else { return self };
        for error in &mut errors {
            if let Some(rest) = error.pointer.strip_prefix(from) {
                error.pointer = format!("{to}{rest}");
            }
        }
        Self::Validation(errors)
    }

    /// The same error, with another name for one member.
    pub(crate) fn renamed(self, pointer: &str, new: &str) -> Self {
        let Self::Validation(mut errors) = self else { return self };
        for error in errors.iter_mut().filter(|error| error.pointer == pointer) {
            new.clone_into(&mut error.pointer);
        }
        Self::Validation(errors)
    }
}
