//! One call of a reply, and its execution by its tool.

use std::time::Instant;

use super::ledger::ended_call;
use super::plan::EndedCall;
use super::spans::{CallSpans, end_call};
use crate::domain::deferred_tools::TOOL_SEARCH;
use crate::domain::tool::ToolCall;
use crate::domain::tool_error::ToolErrorType;
use crate::tools::{Registry, ToolContext};

/// A call and its position among the calls of the reply.
#[derive(Clone, Copy)]
pub(super) struct SingleCall<'c> {
    pub(super) position: usize,
    pub(super) call: &'c ToolCall,
}

/// Executes a call.
pub(super) async fn run_tool(
    tools: &Registry,
    context: &ToolContext,
    spans: &CallSpans,
    SingleCall { position, call }: SingleCall<'_>,
) -> EndedCall {
    let started = Instant::now();
    let span = spans.begin(call);
    let context = context.of_call(&call.tool_use_id);
    let mut answer = tools.call(&context, &call.name, &call.input).await;
    let is_invalid = answer.error_type == Some(ToolErrorType::ValidationError);
    if is_invalid && context.deferred_tools.iter().any(|tool| tool.name == call.name) {
        answer.text.push_str(&deferred_hint(&call.name));
    }
    end_call(span, &answer);
    ended_call(position, call, answer, started)
}

/// The addition to the error of a call whose input is not valid, for a tool whose definition the model may
/// not have read.
fn deferred_hint(name: &str) -> String {
    format!("\nThe tool is deferred: load its definition with {TOOL_SEARCH}, as \"select:{name}\".")
}
