//! One call of a reply, and its execution by its tool.

use std::time::Instant;

use super::ledger::ended_call;
use super::plan::EndedCall;
use super::spans::{CallSpans, end_call};
use crate::domain::tool::ToolCall;
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
    let answer = tools.call(&context, &call.name, &call.input).await;
    end_call(span, &answer);
    ended_call(position, call, answer, started)
}
