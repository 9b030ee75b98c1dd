//! The trace spans of tool calls.

use crate::domain::tool::ToolCall;
use crate::domain::trace::Trace;
use crate::spans::{Kind, OpenSpan, Spans};
use crate::tools::CallOutcome;
use crate::worker::run::context::RunContext;

/// Begins the spans of tool calls.
#[derive(Debug)]
pub(super) struct CallSpans {
    spans: Spans,
    parent: Option<Trace>,
}

impl CallSpans {
    pub(super) fn new(run: &RunContext<'_>) -> Self {
        let spans = run.services.metrics.spans().clone();
        Self { spans, parent: run.claim.options.trace }
    }

    pub(super) fn begin(&self, call: &ToolCall) -> Option<OpenSpan> {
        let tool = name_of(&call.name);
        let name = || format!("execute_tool {tool}");
        let mut span = self.spans.begin(Kind::Internal, name, self.parent)?;
        span.set("gen_ai.operation.name", "execute_tool");
        span.set("gen_ai.tool.name", tool);
        span.set("gen_ai.tool.type", "function");
        span.set("gen_ai.tool.call.id", &*call.tool_use_id);
        Some(span)
    }
}

/// The name of a tool, or a fixed text: a model may request a tool that does not exist, with any text
/// as its name.
fn name_of(name: &str) -> &str {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let is_name = (1..=64).contains(&name.len()) && name.bytes().all(is_plain);
    if is_name { name } else { "_OTHER" }
}

/// Ends the span of a tool call.
pub(super) fn end_call(span: Option<OpenSpan>, answer: &CallOutcome) {
    let Some(mut span) = span else { return };
    if answer.is_error {
        span.fail(answer.error_type.map_or("tool_error", |kind| kind.as_str()));
    }
}
