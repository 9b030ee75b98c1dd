//! What log lines and traces of a run say of it beside what happened.

use tracing::{Span, field, info_span};

use crate::domain::claim::Claimed;
use crate::domain::tool::ToolCall;
use crate::domain::trace::Trace;
use crate::model::{ModelError, Reply};
use crate::spans::{Kind, Open, Spans, Value};
use crate::tools::Answer;
use crate::worker::run::driver::Driver;
use crate::worker::run::stop_cause::Halt;

/// The span of a run, which is in the trace of the request that posted its message.
pub(in crate::worker) fn span_of(run: &Claimed) -> Span {
    let (run_id, session_id) = (run.fence.run_id, run.session_id);
    let span =
        info_span!("run", run.id = %run_id, session.id = %session_id, trace.id = field::Empty);
    if let Some(trace) = run.options.trace {
        span.record("trace.id", trace.id());
    }
    span
}

/// The same in a trace: what a worker does for a run between taking it up and letting it go.
pub(in crate::worker) fn begin_run(spans: &Spans, run: &Claimed) -> Option<Open> {
    let name = || "invoke_agent twostep".to_owned();
    let mut span = spans.begin(Kind::Internal, name, run.options.trace)?;
    span.set("gen_ai.operation.name", "invoke_agent");
    span.set("gen_ai.agent.name", "twostep");
    span.set("gen_ai.conversation.id", run.session_id.to_string());
    span.set("gen_ai.request.model", &*run.settings.model);
    span.set("twostep.run.id", run.fence.run_id.to_string());
    span.set("twostep.run.attempt", i64::from(run.fence.attempt));
    Some(span)
}

/// Why a run came to a bad end, in a word; none if that is not its fault.
pub(in crate::worker) fn failure(halt: &Halt) -> Option<&str> {
    match halt {
        Halt::Model(error) => Some(error.word()),
        Halt::Budget(_) => Some("budget_exceeded"),
        Halt::Store(_) => Some("database"),
        Halt::Defect(_) => Some("defect"),
        Halt::CrashLoop => Some("crash_loop"),
        Halt::LeaseLost | Halt::Cancelled | Halt::ShuttingDown | Halt::Waiting => None,
    }
}

impl Driver<'_> {
    /// Begins the span of a request to the model.
    pub(in crate::worker) fn begin_chat(&self) -> Option<Open> {
        let (parts, model) = (&self.worker.parts, &self.run.settings.model);
        let name = || format!("chat {model}");
        let mut span = parts.metrics.spans().begin(Kind::Client, name, self.run.options.trace)?;
        span.set("gen_ai.operation.name", "chat");
        span.set("gen_ai.provider.name", parts.model.provider().as_str());
        span.set("gen_ai.request.model", &**model);
        span.set("gen_ai.conversation.id", self.session_id().to_string());
        Some(span)
    }

    /// What begins the spans of calls.
    pub(in crate::worker) fn call_spans(&self) -> CallSpans {
        CallSpans {
            spans: self.worker.parts.metrics.spans().clone(),
            cause: self.run.options.trace,
        }
    }
}

/// Ends the span of a request to the model that was carried to its end.
pub(in crate::worker) fn end_chat(span: Option<Open>, ended: &Result<Reply, ModelError>) {
    let Some(mut span) = span else { return };
    let reply = match ended {
        Ok(reply) => reply,
        Err(error) => return span.fail(error.word()),
    };
    let usage = &reply.usage;
    if !reply.id.is_empty() {
        span.set("gen_ai.response.id", &*reply.id);
    }
    span.set("gen_ai.response.model", &*reply.model);
    let reasons = vec![reply.stop.as_str().to_owned()];
    span.set("gen_ai.response.finish_reasons", Value::Texts(reasons));
    span.set("gen_ai.usage.input_tokens", usage.prompt());
    span.set("gen_ai.usage.output_tokens", usage.output_tokens);
    span.set("gen_ai.usage.cache_read.input_tokens", usage.cache_read_input_tokens);
    span.set("gen_ai.usage.cache_creation.input_tokens", usage.cache_creation_input_tokens);
}

/// Begins the spans of calls.
#[derive(Debug)]
pub(in crate::worker) struct CallSpans {
    spans: Spans,
    cause: Option<Trace>,
}

impl CallSpans {
    pub(in crate::worker) fn begin(&self, call: &ToolCall) -> Option<Open> {
        let tool = name_of(&call.name);
        let name = || format!("execute_tool {tool}");
        let mut span = self.spans.begin(Kind::Internal, name, self.cause)?;
        span.set("gen_ai.operation.name", "execute_tool");
        span.set("gen_ai.tool.name", tool);
        span.set("gen_ai.tool.type", "function");
        span.set("gen_ai.tool.call.id", &*call.tool_use_id);
        Some(span)
    }
}

/// A model may ask for a tool that nobody has, by any text as its name.
fn name_of(name: &str) -> &str {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let is_name = (1..=64).contains(&name.len()) && name.bytes().all(is_plain);
    if is_name { name } else { "_OTHER" }
}

/// Ends the span of a call.
pub(in crate::worker) fn end_call(span: Option<Open>, answer: &Answer) {
    let Some(mut span) = span else { return };
    if answer.is_error {
        span.fail(answer.error_type.map_or("tool_error", |kind| kind.as_str()));
    }
}
