//! HTTP endpoint tools: the operator declares them, and each call is a request to the operator's
//! endpoint.

mod declared;
#[cfg(test)]
mod tests;

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Response, Url};
use serde_json::Value;
use serde_json::value::RawValue;

use super::error::{ErrorStyle, ToolError};
use super::output::{FileChange, Output};
use super::tool::{Fallback, Tool, ToolContext};
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::domain::webhook::WebhookSecret;
use crate::outbound::{BadBody, Outbound, read_body};
pub use declared::{BadEndpoints, endpoints};

/// Maximum size of a response, in bytes.
const MAX_ANSWER: usize = 1024 * 1024;
/// Maximum size of the response body in an error text, in bytes.
const MAX_WHY: usize = 2000;

/// A tool that calls an HTTP endpoint.
#[derive(Debug)]
struct Endpoint {
    name: String,
    description: String,
    input_schema: Value,
    class: ToolClass,
    timeout: Duration,
    url: Url,
    secret: Option<WebhookSecret>,
    outbound: Outbound,
}

impl Endpoint {
    async fn ask(&self, context: &ToolContext, input: &RawValue) -> Result<Output, ToolError> {
        let client = self.outbound.client(&self.url).map_err(|refused| {
            tracing::error!(
                tool.name = self.name,
                "endpoint refused: the URL of the tool {refused}"
            );
            ToolError::Failed("no request was sent: the endpoint is not allowed".to_owned())
        })?;
        // Unique per call, and the same when the call is repeated after a crash.
        let key = format!("{}.{}", context.claim.run_id, context.tool_use_id);
        let timestamp = Timestamp::now().as_second();
        let mut request = client
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/*;q=0.9")
            .header("idempotency-key", &key)
            .header("webhook-id", &key)
            .header("webhook-timestamp", timestamp);
        if let Some(secret) = &self.secret {
            request =
                request.header("webhook-signature", secret.sign(&key, timestamp, input.get()));
        }
        let sent = request.body(input.get().to_owned()).send().await;
        self.answer(sent.map_err(|error| self.unreachable(error))?).await
    }

    async fn answer(&self, response: Response) -> Result<Output, ToolError> {
        let status = response.status();
        let named = response.headers().get(CONTENT_TYPE);
        let is_text = named.and_then(|value| value.to_str().ok()).is_none_or(is_text);
        let body = read_body(response, MAX_ANSWER).await.map_err(|error| match error {
            BadBody::Broken(error) => self.unreachable(error),
            BadBody::Large(_) | BadBody::Compressed => ToolError::Failed(error.to_string()),
        })?;
        let text = if is_text { String::from_utf8_lossy(&body) } else { "".into() };
        let code = status.as_u16();
        if !status.is_success() {
            let why = text.get(..text.floor_char_boundary(MAX_WHY)).unwrap_or_default();
            let text = format!("the endpoint answered with status {code}. {why}");
            return Err(ToolError::Failed(text.trim_end().to_owned()));
        }
        if !is_text {
            let text = "the endpoint answered with a body that is neither JSON nor text";
            return Err(ToolError::Failed(text.to_owned()));
        }
        if text.trim().is_empty() {
            return Ok(
                format!("Done: the endpoint answered with status {code} and no text.").into()
            );
        }
        Ok(text.into_owned().into())
    }

    fn unreachable(&self, error: reqwest::Error) -> ToolError {
        let error = error.without_url();
        tracing::warn!(tool.name = self.name, %error, "endpoint of a tool unreachable");
        ToolError::of_request(&error, "the endpoint")
    }
}

fn is_text(content_type: &str) -> bool {
    let name = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    name.starts_with("text/") || name == "application/json" || name.ends_with("+json")
}

impl Tool for Endpoint {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn input_schema(&self) -> Value {
        self.input_schema.clone()
    }

    fn class(&self) -> ToolClass {
        self.class
    }

    fn timing(&self) -> ToolTiming {
        ToolTiming::Network
    }

    fn deadline(&self, _input: &RawValue) -> Duration {
        self.timeout
    }

    fn runs_in_parallel(&self) -> bool {
        self.class == ToolClass::Pure
    }

    fn error_style(&self) -> ErrorStyle {
        ErrorStyle::Plain
    }

    fn fallback(&self) -> Option<Fallback> {
        None
    }

    fn call<'a>(
        &'a self,
        context: &'a ToolContext,
        input: &'a RawValue,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        self.ask(context, input).boxed()
    }

    fn plan<'a>(
        &'a self,
        _context: &'a ToolContext,
        _input: &'a RawValue,
    ) -> BoxFuture<'a, Result<FileChange, ToolError>> {
        let why = format!("{} changes no file", self.name);
        async move { Err(ToolError::Failed(why)) }.boxed()
    }
}
