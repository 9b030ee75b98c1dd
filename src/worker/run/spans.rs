//! The spans of a run in logs and traces.

use tracing::{Span, field, info_span};

use crate::domain::claim::Claimed;
use crate::spans::{Kind, OpenSpan, Spans};

/// The log span of a run. It names the trace of the request that posted the run's message.
pub(in crate::worker) fn log_span(run: &Claimed) -> Span {
    let (run_id, session_id) = (run.fence.run_id, run.session_id);
    let span =
        info_span!("run", run.id = %run_id, session.id = %session_id, trace.id = field::Empty);
    if let Some(trace) = run.options.trace {
        span.record("trace.id", trace.id());
    }
    span
}

/// Begins the trace span of a run: from its claim to the end of this drive.
pub(in crate::worker) fn begin_run_span(spans: &Spans, run: &Claimed) -> Option<OpenSpan> {
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
