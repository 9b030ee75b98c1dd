//! HTTP statuses, codes and headers of the service's errors.

use http::StatusCode;

use super::ApiError;
use crate::service::{AgentError, Error};

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        if let Error::Store(error) = error {
            return Self::Store(error);
        }
        if let Error::Internal(cause) = error {
            return Self::Internal(cause);
        }
        Self::Service(error)
    }
}

/// The status and the code, which are part of the API.
pub(super) fn status_and_code(error: &Error) -> (StatusCode, &'static str) {
    match error {
        Error::BadJson(_) => (StatusCode::BAD_REQUEST, "bad_json"),
        Error::InvalidCursor(_) => (StatusCode::BAD_REQUEST, "invalid_cursor"),
        Error::Validation(_) => (StatusCode::UNPROCESSABLE_ENTITY, "validation_failed"),
        Error::SessionNotFound(_) => (StatusCode::NOT_FOUND, "session_not_found"),
        Error::RunNotFound(_) => (StatusCode::NOT_FOUND, "run_not_found"),
        Error::FileNotFound(_) => (StatusCode::NOT_FOUND, "file_not_found"),
        Error::MessageNotFound(_) => (StatusCode::NOT_FOUND, "message_not_found"),
        Error::RequestNotFound(_) => (StatusCode::NOT_FOUND, "request_not_found"),
        Error::EnvironmentNotFound(_) => (StatusCode::NOT_FOUND, "environment_not_found"),
        Error::BrowserTokenNotFound(_) => (StatusCode::NOT_FOUND, "browser_token_not_found"),
        Error::ExternalIdTaken => (StatusCode::CONFLICT, "external_id_taken"),
        Error::WebhookNotFound(_) => (StatusCode::NOT_FOUND, "webhook_not_found"),
        Error::DeliveryNotFound(_) => (StatusCode::NOT_FOUND, "delivery_not_found"),
        Error::ApprovalNotFound(_) => (StatusCode::NOT_FOUND, "approval_not_found"),
        Error::ToolCallNotFound(_) => (StatusCode::NOT_FOUND, "tool_call_not_found"),
        Error::Agent(error) => agent_status_and_code(error),
        Error::WebhookDisabled => (StatusCode::CONFLICT, "webhook_disabled"),
        Error::TooManyTests => (StatusCode::CONFLICT, "too_many_tests"),
        Error::TooManyWebhooks(_) => (StatusCode::CONFLICT, "too_many_webhooks"),
        Error::SessionBusy { .. } => (StatusCode::CONFLICT, "session_busy"),
        Error::ActionRequired { .. } => (StatusCode::CONFLICT, "action_required"),
        Error::RunNotRetryable { .. } => (StatusCode::CONFLICT, "run_not_retryable"),
        Error::CallNotWaiting(_) => (StatusCode::CONFLICT, "call_not_waiting"),
        Error::AlreadyResolved(_) => (StatusCode::CONFLICT, "already_resolved"),
        Error::QueueFull(_) => (StatusCode::CONFLICT, "queue_full"),
        Error::SessionArchived => (StatusCode::CONFLICT, "session_archived"),
        Error::SessionHasForks(_) => (StatusCode::CONFLICT, "session_has_forks"),
        Error::ApprovalExpired(_) => (StatusCode::GONE, "approval_expired"),
        Error::ToolResultExpired(_) => (StatusCode::GONE, "tool_result_expired"),
        Error::VersionMismatch => (StatusCode::PRECONDITION_FAILED, "version_mismatch"),
        Error::IdempotencyKeyReused { .. } | Error::KeyReused => {
            (StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_reused")
        }
        Error::WorkspaceTooLarge(_) => (StatusCode::UNPROCESSABLE_ENTITY, "workspace_too_large"),
        Error::QuotaExceeded(exceeded) if exceeded.resource.is_storage() => {
            (StatusCode::INSUFFICIENT_STORAGE, "storage_quota_exceeded")
        }
        Error::QuotaExceeded(_) => (StatusCode::TOO_MANY_REQUESTS, "quota_exceeded"),
        Error::Overloaded(_) => (StatusCode::TOO_MANY_REQUESTS, "overloaded"),
        Error::Draining => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
        Error::TooManyCopies => (StatusCode::SERVICE_UNAVAILABLE, "too_many_copies"),
        Error::TooManyDeletions => (StatusCode::SERVICE_UNAVAILABLE, "too_many_deletions"),
        Error::TooManyVerifications => (StatusCode::SERVICE_UNAVAILABLE, "too_many_verifications"),
        Error::Store(error) if error.may_pass() => {
            (StatusCode::SERVICE_UNAVAILABLE, "database_unavailable")
        }
        Error::Store(_) | Error::Internal(_) => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
    }
}

const fn agent_status_and_code(error: &AgentError) -> (StatusCode, &'static str) {
    match error {
        AgentError::NotFound(_) => (StatusCode::NOT_FOUND, "agent_not_found"),
        AgentError::NameTaken { .. } => (StatusCode::CONFLICT, "agent_name_taken"),
        AgentError::TooMany(_) => (StatusCode::CONFLICT, "too_many_agents"),
        AgentError::TooManyVersions(_) => (StatusCode::CONFLICT, "too_many_agent_versions"),
    }
}

/// Reports whether the request had no effect, so that a client can safely repeat it.
pub(super) const fn had_no_effect(error: &Error) -> bool {
    matches!(
        error,
        Error::Overloaded(_)
            | Error::Draining
            | Error::TooManyCopies
            | Error::TooManyDeletions
            | Error::TooManyVerifications
    )
}
