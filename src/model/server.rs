//! The configuration of a model server.

use reqwest::Url;

use super::{anthropic, openai};
use crate::domain::provider::Provider;

/// The configuration of a model server, by its protocol.
#[derive(Debug, Clone)]
pub enum Server {
    /// A server of the Messages API.
    Anthropic(anthropic::ClientConfig),
    /// A server of Chat Completions.
    OpenAi(openai::ClientConfig),
    /// A server of Responses.
    Responses(openai::responses::ClientConfig),
}

impl Server {
    /// The base URL.
    pub const fn base_url(&self) -> &Url {
        match self {
            Self::Anthropic(config) => &config.base_url,
            Self::OpenAi(config) => &config.base_url,
            Self::Responses(config) => &config.base_url,
        }
    }

    /// The provider whose protocol the server speaks.
    pub const fn provider(&self) -> Provider {
        match self {
            Self::Anthropic(_) => Provider::Anthropic,
            Self::OpenAi(_) => Provider::OpenAi,
            Self::Responses(_) => Provider::OpenAiResponses,
        }
    }
}
