//! The provenance of the URLs that calls of a run request.

use serde_json::value::RawValue;

use crate::domain::provenance::ResultOrigin;
use crate::domain::sub_agent::is_for_sub_agents;
use crate::domain::tool::{ToolCall, ToolClass};
use crate::tools::policy::{CallFacts, HistorySource, UrlHistory};
use crate::worker::run::context::RunContext;
use crate::worker::transcript::Transcript;

/// The provenance of the URLs in the conversation of a run. `current` are calls that do not count
/// as earlier calls.
pub(in crate::worker) fn url_history(
    run: &RunContext<'_>,
    transcript: &Transcript,
    current: &[ToolCall],
) -> UrlHistory {
    let messages = transcript.messages();
    let task = run.settings().task.as_deref();
    let source = HistorySource {
        messages: messages.text,
        is_compacted: messages.is_compacted,
        is_sub_agent: task.is_some() || run.claim.parent_session.is_some(),
        is_fork: run.claim.is_fork,
        task,
        current,
    };
    let delegated = delegated_origin(run);
    UrlHistory::read(&source, &|name, input| facts(run, delegated, name, input))
}

/// The maximum number of links that a run may follow for one message without an approval.
pub(in crate::worker) fn max_links(run: &RunContext<'_>) -> usize {
    let task = run.settings().task.as_ref();
    task.map_or(run.services.policy.max_links, |task| task.links)
}

fn facts(run: &RunContext<'_>, delegated: ResultOrigin, name: &str, input: &RawValue) -> CallFacts {
    let tools = &run.services.tools;
    let is_client_tool = run.settings().is_client_tool(&run.claim.options, name);
    let Some(origin) = tools.result_origin(name, input).filter(|_| !is_client_tool) else {
        // A tool of the client, or one that is no longer offered, may do anything.
        let (origin, class) = (ResultOrigin::Service, ToolClass::Effect);
        return CallFacts { origin, class, requested_url: None };
    };
    let class = tools.class(name);
    let origin = if class == ToolClass::SubAgent { delegated } else { origin };
    CallFacts { origin, class, requested_url: tools.requested_url(name, input) }
}

/// The origin of the reports of sub-agents: without a tool that reads private data, a sub-agent has
/// none.
fn delegated_origin(run: &RunContext<'_>) -> ResultOrigin {
    let (tools, settings) = (&run.services.tools, run.settings());
    let reads_private_data = |name: &String| {
        is_for_sub_agents(name)
            && !settings.client_tools.contains(name)
            && tools.result_origin(name, RawValue::NULL).is_none_or(ResultOrigin::is_private)
    };
    let is_private = settings.tool_names().iter().any(reads_private_data);
    if is_private { ResultOrigin::Directed } else { ResultOrigin::Model }
}
