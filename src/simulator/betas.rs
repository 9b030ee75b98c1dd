//! Names of beta features that the API knows.

use super::refusal::Refusal;

const KNOWN: [&str; 27] = [
    "advisor-tool-2026-03-01",
    "compact-2026-01-12",
    "compact-2026-09-04",
    "context-management-2025-06-27",
    "extended-cache-ttl-2025-04-11",
    "fallback-credit-2026-07-01",
    "fast-mode-2026-02-01",
    "fine-grained-tool-streaming-2025-05-14",
    "inline-tools-2026-09-15",
    "interleaved-thinking-2025-05-14",
    "mcp-client-2025-11-20",
    "mcp-client-2026-09-15",
    "message-batches-2024-09-24",
    "message-threads-2026-08-12",
    "mid-conversation-tool-changes-2026-07-01",
    "model-context-window-exceeded-2025-08-26",
    "output-300k-2026-03-24",
    "pdfs-2024-09-25",
    "prompt-caching-2024-07-31",
    "server-side-fallback-2026-07-01",
    "structured-outputs-2025-11-13",
    "task-budgets-2026-03-13",
    "thinking-binding-controls-2026-08-01",
    "thinking-display-updates-2026-08-18",
    "thinking-token-count-2026-05-13",
    "token-counting-2024-11-01",
    "token-efficient-tools-2025-02-19",
];

/// Checks the value of `anthropic-beta`: names, joined by commas.
pub(crate) fn check(header: &str) -> Result<(), Refusal> {
    match header.split(',').map(str::trim).find(|name| !KNOWN.contains(name)) {
        Some(name) => Err(Refusal::invalid(format!(
            "Unexpected value(s) `{name}` for the `anthropic-beta` header. Please consult our \
             documentation at docs.anthropic.com or try again without the header."
        ))),
        None => Ok(()),
    }
}
