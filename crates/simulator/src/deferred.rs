//! Deferred tools (`defer_loading`): a definition is no part of the prompt until a result refers to it.
//! Then the API inserts it after the result, so the prefix before it stays cached. Documentation of the
//! tool search tool, "Deferred tool loading" and "Custom tool search implementation"; measurements of
//! the billed tokens with and without deferred definitions agree.

use serde_json::Value;

use crate::request::{ApiRequest, ContentBlock};

/// True if a definition is deferred.
pub(crate) fn is_deferred(tool: &Value) -> bool {
    tool.get("defer_loading") == Some(&Value::Bool(true))
}

/// The references in the content of a tool result.
pub(crate) fn references(block: ContentBlock<'_>) -> impl Iterator<Item = &Value> {
    let parts = block.get("content").and_then(Value::as_array).filter(|_| block.is("tool_result"));
    let parts = parts.map_or(&[][..], Vec::as_slice).iter();
    parts.filter(|part| part.get("type").is_some_and(|kind| kind == "tool_reference"))
}

/// The bytes of the definitions that the API inserts for the references of a block.
pub(crate) fn inserted(request: ApiRequest<'_>, block: ContentBlock<'_>) -> usize {
    let definition = |reference: &Value| {
        let name = reference.get("tool_name")?;
        let tool = request.tools().iter().find(|tool| tool.get("name") == Some(name))?;
        Some(tool.to_string().len())
    };
    references(block).filter_map(definition).sum()
}

/// The size of the prompt of a request whose body has `bytes` bytes.
pub(crate) fn prompt_size(request: ApiRequest<'_>, bytes: usize) -> usize {
    let deferred = request.tools().iter().filter(|tool| is_deferred(tool));
    let deferred: usize = deferred.map(|tool| tool.to_string().len() + 1).sum();
    let inserted: usize = request.sent().map(|(_, sent)| inserted(request, sent.block)).sum();
    bytes.saturating_sub(deferred) + inserted
}
