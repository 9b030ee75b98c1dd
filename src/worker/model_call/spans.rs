//! The trace spans of requests to the model.

use crate::model::{ModelError, Reply};
use crate::spans::{Kind, OpenSpan, Value};
use crate::worker::run::context::RunContext;

/// Begins the span of a request to the model.
pub(super) fn begin_request_span(run: &RunContext<'_>) -> Option<OpenSpan> {
    let (services, server, model) = (run.services, run.model().server, &run.settings().model);
    let name = || format!("chat {model}");
    let spans = services.metrics.spans();
    let mut span = spans.begin(Kind::Client, name, run.claim.options.trace)?;
    span.set("gen_ai.operation.name", "chat");
    span.set("gen_ai.provider.name", server.client.provider().as_str());
    if let Some(provider) = server.name() {
        span.set("twostep.model.provider", provider.to_owned());
    }
    span.set("gen_ai.request.model", &**model);
    span.set("gen_ai.conversation.id", run.session_id().to_string());
    Some(span)
}

/// Ends the span of a request to the model that was not interrupted.
pub(super) fn end_request_span(span: Option<OpenSpan>, ended: &Result<Reply, ModelError>) {
    let Some(mut span) = span else { return };
    let reply = match ended {
        Ok(reply) => reply,
        Err(error) => return span.fail(error.name()),
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
