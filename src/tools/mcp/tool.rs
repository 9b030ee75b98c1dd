//! The implementation of [`Tool`] for a tool of an MCP server.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value;
use serde_json::value::RawValue;

use super::content::output_of;
use super::server::Server;
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::tools::error::{ErrorStyle, ToolError};
use crate::tools::output::{FileChange, Output};
use crate::tools::tool::{Fallback, Tool, ToolContext};

/// Extra time in which a timed-out call is cancelled at the server and counted.
const CANCEL_TIME: Duration = Duration::from_secs(1);

/// A tool of an MCP server.
#[derive(Debug)]
pub(super) struct ServedTool {
    server: Arc<Server>,
    name: String,
    own_name: String,
    description: String,
    schema: Value,
    class: ToolClass,
}

impl ServedTool {
    pub(super) fn new(
        server: &Arc<Server>,
        name: String,
        own_name: String,
        description: String,
        schema: Value,
        class: ToolClass,
    ) -> Self {
        Self { server: Arc::clone(server), name, own_name, description, schema, class }
    }

    /// Returns the name that the server gives the tool.
    pub(super) fn own_name(&self) -> &str {
        &self.own_name
    }

    async fn call_server(&self, input: &RawValue) -> Result<Output, ToolError> {
        let arguments = serde_json::from_str(input.get())
            .map_err(|error| ToolError::Invalid(format!("the input is not an object: {error}")))?;
        let (server, timeout) = (&self.server, self.server.settings().timeout);
        match server.call_tool(&self.own_name, arguments, timeout).await {
            Ok(result) if result.is_error == Some(true) => {
                Err(ToolError::Failed(output_of(&result).text))
            }
            Ok(result) => Ok(output_of(&result)),
            Err(failure) => Err(failure.to_tool_error(&server.settings().name, &self.name)),
        }
    }
}

impl Tool for ServedTool {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn input_schema(&self) -> Value {
        self.schema.clone()
    }

    fn class(&self) -> ToolClass {
        self.class
    }

    fn timing(&self) -> ToolTiming {
        ToolTiming::Network
    }

    /// Returns the deadline of a call: the server's timeout and the time for its cancellation.
    fn deadline(&self, input: &RawValue) -> Duration {
        let is_call = input.get() != RawValue::NULL.get();
        self.server.settings().timeout + if is_call { CANCEL_TIME } else { Duration::ZERO }
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
        _context: &'a ToolContext,
        input: &'a RawValue,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        self.call_server(input).boxed()
    }

    fn plan<'a>(
        &'a self,
        _context: &'a ToolContext,
        _input: &'a RawValue,
    ) -> BoxFuture<'a, Result<FileChange, ToolError>> {
        async { Err(ToolError::Failed(format!("{} changes no file", self.name))) }.boxed()
    }
}
