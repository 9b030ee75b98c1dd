//! What log lines of a run say of it beside what happened.

use tracing::{Span, field, info_span};

use crate::domain::claim::Claimed;

/// The span of a run, which is in the trace of the request that posted its message.
pub(super) fn span_of(run: &Claimed) -> Span {
    let (run_id, session_id) = (run.fence.run_id, run.session_id);
    let span =
        info_span!("run", run.id = %run_id, session.id = %session_id, trace.id = field::Empty);
    if let Some(trace) = run.options.trace {
        span.record("trace.id", trace.id());
    }
    span
}
