//! The permission evaluator: an external service or MCP tool that decides on calls before a person
//! is asked.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Response, Url};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::rule::{denial, shortened};
use super::{EvaluatorSource, OperatorPolicy, PolicyDecision, visible};
use crate::domain::ids::SessionId;
use crate::domain::permission::Permission;
use crate::domain::tool::{ToolCall, ToolClass};
use crate::tools::error::{ErrorStyle, ToolError};
use crate::tools::mcp::{ServerCallFailure, ToolServers};
use crate::tools::registry::CallOutcome;

/// Maximum size of a response, in bytes.
const MAX_RESPONSE: usize = 64 * 1024;

/// A client of the permission evaluator. If the evaluator fails, the call is refused.
#[derive(Debug, Clone)]
pub struct Evaluator {
    backend: Backend,
    timeout: Duration,
}

#[derive(Debug, Clone)]
enum Backend {
    Http { http: reqwest::Client, url: Url },
    Tool { servers: Arc<ToolServers>, server: String, tool: String },
}

#[derive(Serialize)]
struct EvaluationRequest<'a> {
    tool: &'a str,
    input: &'a RawValue,
    class: ToolClass,
    session_id: SessionId,
    tool_use_id: &'a str,
}

#[derive(Deserialize)]
struct EvaluationResponse {
    decision: Permission,
    reason: Option<String>,
}

/// An error in the configuration of the evaluator.
#[derive(Debug, thiserror::Error)]
pub enum BadEvaluator {
    /// The key has a character that is not permitted in a header.
    #[error("the key for the permission URL cannot be sent as a header")]
    Header,
    /// The HTTP client could not be built.
    #[error("the HTTP client did not start: {0}")]
    Http(#[from] reqwest::Error),
}

impl Evaluator {
    /// Returns the evaluator that the operator configured, if any.
    pub fn of(
        operator: &OperatorPolicy,
        servers: &Arc<ToolServers>,
    ) -> Result<Option<Self>, BadEvaluator> {
        let backend = match &operator.evaluator {
            None => return Ok(None),
            Some(EvaluatorSource::Http { url, key }) => {
                Backend::Http { http: client(key.as_ref())?, url: url.clone() }
            }
            Some(EvaluatorSource::Tool { server, tool }) => {
                let servers = Arc::clone(servers);
                Backend::Tool { servers, server: server.clone(), tool: tool.clone() }
            }
        };
        Ok(Some(Self { backend, timeout: operator.evaluation_timeout }))
    }

    /// Requests a decision on a call. An error becomes the result of the call: see [`refusal`].
    pub async fn ask(
        &self,
        session_id: SessionId,
        call: &ToolCall,
        class: ToolClass,
    ) -> Result<PolicyDecision, ToolError> {
        let ToolCall { name, input, tool_use_id } = call;
        let request = EvaluationRequest { tool: name, input, class, session_id, tool_use_id };
        let response = timeout(self.timeout, self.evaluate(&request)).await;
        let response = response.unwrap_or(Err(Failure::TimedOut));
        let EvaluationResponse { decision, reason } = response.map_err(|failure| {
            tracing::warn!(tool.name = %name, ?failure, "permission evaluation failed");
            failure.into_tool_error(name, self.timeout)
        })?;
        let reason = reason.map(shortened);
        let reason = match decision {
            Permission::Deny => Some(denial(name, "the permission service denied it", reason)),
            Permission::Allow | Permission::Ask => reason,
        };
        Ok(PolicyDecision { permission: decision, reason, is_by_mode: true })
    }

    async fn evaluate(
        &self,
        request: &EvaluationRequest<'_>,
    ) -> Result<EvaluationResponse, Failure> {
        match &self.backend {
            Backend::Http { http, url } => {
                let sent = http.post(url.clone()).json(request).send().await;
                let response = sent.map_err(|error| {
                    if error.is_connect() { Failure::Unreachable } else { Failure::NoResponse }
                })?;
                if !response.status().is_success() {
                    return Err(Failure::Status(response.status().as_u16()));
                }
                serde_json::from_slice(&body(response).await?).map_err(|_| Failure::Unreadable)
            }
            Backend::Tool { servers, server, tool } => {
                let request = serde_json::to_value(request).map_err(|_| Failure::Unreadable)?;
                let Value::Object(request) = request else { return Err(Failure::Unreadable) };
                let called = servers.call_tool(server, tool, request, self.timeout).await;
                let (text, is_error) = called.map_err(Failure::of)?;
                if is_error {
                    return Err(Failure::Refused(shortened(visible(&text).into_owned())));
                }
                serde_json::from_str(&text).map_err(|_| Failure::Unreadable)
            }
        }
    }
}

fn client(key: Option<&SecretString>) -> Result<reqwest::Client, BadEvaluator> {
    let mut headers = HeaderMap::new();
    if let Some(key) = key {
        let key = format!("Bearer {}", key.expose_secret());
        let mut key = HeaderValue::from_str(&key).map_err(|_| BadEvaluator::Header)?;
        key.set_sensitive(true);
        headers.insert(AUTHORIZATION, key);
    }
    let http = reqwest::Client::builder()
        .user_agent(concat!("twostep/", env!("CARGO_PKG_VERSION")))
        .default_headers(headers)
        .redirect(reqwest::redirect::Policy::none())
        .build()?;
    Ok(http)
}

async fn body(mut response: Response) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|_| Failure::NoResponse)? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_RESPONSE {
            return Err(Failure::Unreadable);
        }
    }
    Ok(body)
}

/// The cause of a failed evaluation.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Failure {
    TimedOut,
    NoResponse,
    Unreachable,
    Status(u16),
    Refused(String),
    Unreadable,
}

impl Failure {
    fn of(failure: ServerCallFailure) -> Self {
        match failure {
            ServerCallFailure::NotConnected | ServerCallFailure::CircuitOpen(_) => {
                Self::Unreachable
            }
            ServerCallFailure::TimedOut(_) => Self::TimedOut,
            ServerCallFailure::NoResponse => Self::NoResponse,
            ServerCallFailure::Refused { message, .. } => Self::Refused(message),
            ServerCallFailure::InputRequired => Self::Unreadable,
        }
    }

    /// Converts the failure into the error text that the model receives.
    fn into_tool_error(self, tool: &str, after: Duration) -> ToolError {
        let evaluating = |cause: &str| {
            format!(
                "Error calling tool ({tool}): MCP error -32603: failed to evaluate permission: \
                 {cause}"
            )
        };
        match self {
            Self::TimedOut => {
                let cause = format!("request timed out after {}", go_duration(after));
                ToolError::Timeout(evaluating(&cause))
            }
            Self::NoResponse => ToolError::NoResponse(evaluating("no response received")),
            Self::Unreachable => {
                ToolError::Network(format!("Error calling tool ({tool}): fetch failed"))
            }
            Self::Status(status) => {
                ToolError::Failed(evaluating(&format!("the answer has the status {status}")))
            }
            Self::Refused(why) => ToolError::Failed(evaluating(&why)),
            Self::Unreadable => ToolError::Failed(evaluating("the answer cannot be read")),
        }
    }
}

/// Formats a duration as Go does: `2m0s`, `1h0m0s`, `1.5s`.
fn go_duration(duration: Duration) -> String {
    let (hours, minutes) = (duration.as_secs() / 3600, duration.as_secs() / 60 % 60);
    let rest = duration.as_secs_f64() % 60.0;
    let millis = duration.as_millis();
    match (hours, minutes) {
        (0, 0) if millis < 1000 => format!("{millis}ms"),
        (0, 0) => format!("{rest}s"),
        (0, minutes) => format!("{minutes}m{rest}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{rest}s"),
    }
}

/// Returns the result of a call whose evaluation failed. The text has the same form for all tools.
pub fn refusal(error: &ToolError) -> CallOutcome {
    CallOutcome {
        text: ErrorStyle::Wrapped.format(&error.to_string()),
        images: Vec::new(),
        is_error: true,
        error_type: error.error_type(),
        state_changes: Vec::new(),
        sources: Vec::new(),
        sandbox: None,
    }
}

#[cfg(test)]
mod tests;
