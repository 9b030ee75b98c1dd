//! Provenance: who wrote a text, and with it the URLs in the text.

use serde::{Deserialize, Serialize};

/// The origin of the text in a tool's results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultOrigin {
    /// The public web.
    PublicWeb,
    /// A service of the operator or the client.
    Service,
    /// The files of the workspace, which the model may have written.
    Workspace,
    /// A program or a sub-agent that the model directs, with access to private data.
    Directed,
    /// A model, or no data at all.
    Model,
}

impl ResultOrigin {
    /// Returns `true` if the text may contain private data.
    pub const fn is_private(self) -> bool {
        match self {
            Self::Service | Self::Workspace | Self::Directed => true,
            Self::PublicWeb | Self::Model => false,
        }
    }

    /// Returns `true` if the model cannot have composed a URL in the text. `has_written` is true if
    /// the model may have written to the workspace before.
    pub const fn names_urls(self, has_written: bool) -> bool {
        match self {
            Self::PublicWeb | Self::Service => true,
            Self::Workspace => !has_written,
            Self::Directed | Self::Model => false,
        }
    }
}

/// The provenance of a sub-agent's task, which the model of its parent wrote. It is pinned with the
/// session of the sub-agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskProvenance {
    /// The URLs in the task that the user named to the parent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub user_urls: Vec<String>,
    /// The URLs in the task that results of the parent's calls named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found_urls: Vec<String>,
    /// True if the parent had read private data.
    pub has_read: bool,
    /// True if the parent, or another sub-agent, may have written to the workspace.
    pub has_written: bool,
    /// The number of pages that the user did not name and that the sub-agent may fetch without an
    /// approval after private data was read.
    pub links: usize,
}
