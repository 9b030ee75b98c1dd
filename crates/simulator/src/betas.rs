//! The beta features that the API knows, by name.

use super::refusal::Refusal;

/// Clears tool results and thinking on the server.
pub(crate) const EDITING: &str = "context-management-2025-06-27";
/// Summarizes a long conversation on the server, at the start of a reply.
pub(crate) const AUTOMATIC: &str = "compact-2026-01-12";
/// Returns a signed summary on request.
pub(crate) const ON_REQUEST: &str = "compact-2026-09-04";

const KNOWN: [&str; 27] = [
    "advisor-tool-2026-03-01",
    AUTOMATIC,
    ON_REQUEST,
    EDITING,
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

/// The beta features of a request, one bit for each known name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Betas(u32);

impl Betas {
    /// Parses the value of `anthropic-beta`: names separated by commas.
    pub(crate) fn read(header: &str) -> Result<Self, Refusal> {
        let mut betas = Self::default();
        for name in header.split(',').map(str::trim) {
            let Some(bit) = bit(name) else {
                return Err(Refusal::invalid(format!(
                    "Unexpected value(s) `{name}` for the `anthropic-beta` header. Please consult \
                     our documentation at docs.anthropic.com or try again without the header."
                )));
            };
            betas.0 |= bit;
        }
        Ok(betas)
    }

    /// True if the request has at least one of these features.
    pub(crate) fn any(self, names: &[&str]) -> bool {
        names.iter().filter_map(|name| bit(name)).any(|bit| self.0 & bit != 0)
    }
}

fn bit(name: &str) -> Option<u32> {
    KNOWN.iter().position(|known| *known == name).map(|at| 1 << at)
}
