//! The clouds that offer Claude through the Messages API, and their differences from Anthropic's own
//! API.

use serde::{Deserialize, Serialize};

/// A cloud that offers the Messages API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Platform {
    /// Amazon Bedrock, at its endpoint for the Messages API.
    Bedrock,
    /// Google Cloud (Vertex AI).
    Vertex,
}

impl Platform {
    /// All platforms.
    pub const ALL: [Self; 2] = [Self::Bedrock, Self::Vertex];

    /// The name in the file of providers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bedrock => "bedrock",
            Self::Vertex => "vertex",
        }
    }

    /// The name for people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Bedrock => "Amazon Bedrock",
            Self::Vertex => "Google Cloud",
        }
    }

    /// Features of Anthropic's own API that the platform does not have.
    pub const fn lacks(self) -> &'static [&'static str] {
        match self {
            Self::Bedrock => &["model_list", "server_tools", "url_sources"],
            Self::Vertex => &["code_execution", "model_list", "url_sources", "web_fetch"],
        }
    }

    /// Returns true if the platform runs this server tool.
    pub fn runs(self, server_tool: &str) -> bool {
        match self {
            Self::Bedrock => false,
            Self::Vertex => server_tool == "web_search",
        }
    }

    /// The total size of the user messages of a session, in bytes. The platforms accept requests of
    /// 20 MB and 30 MB, which also hold the replies, the tools and the system prompt.
    pub const fn max_message_bytes(self) -> usize {
        match self {
            Self::Bedrock => 18_000_000,
            Self::Vertex => 28_000_000,
        }
    }

    /// The maximum length of an image in base64, half of what Anthropic's own API accepts.
    pub const fn max_image(self) -> usize {
        5 * 1024 * 1024
    }

    /// The name of a model of the platform in Anthropic's own API: `anthropic.claude-opus-5-5` of
    /// Bedrock, `claude-opus-4-5@20251101` of Google Cloud.
    pub fn own_name(self, name: &str) -> &str {
        match self {
            Self::Bedrock => name.split_once("anthropic.").map_or(name, |(_, name)| name),
            Self::Vertex => name.split_once('@').map_or(name, |(name, _)| name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_lists_what_the_platforms_lack() {
        let page = include_str!("../../docs/model-servers.md");
        for word in Platform::ALL.iter().flat_map(|platform| platform.lacks()) {
            assert!(page.contains(&format!("`{word}`")), "{word}");
        }
    }

    #[test]
    fn models_have_their_names_in_the_own_api() {
        for (platform, name, own) in [
            (Platform::Bedrock, "anthropic.claude-opus-5-5", "claude-opus-5-5"),
            (Platform::Bedrock, "us.anthropic.claude-opus-5-5", "claude-opus-5-5"),
            (Platform::Bedrock, "other", "other"),
            (Platform::Vertex, "claude-opus-4-5@20251101", "claude-opus-4-5"),
            (Platform::Vertex, "claude-opus-5-5", "claude-opus-5-5"),
        ] {
            assert_eq!(platform.own_name(name), own, "{name}");
        }
    }
}
