//! Where models are.

use reqwest::Url;

use super::{anthropic, openai};
use crate::domain::provider::Provider;

/// A server of models, and how to speak to it.
#[derive(Debug, Clone)]
pub enum Server {
    /// It speaks the Messages API.
    Anthropic(anthropic::ClientConfig),
    /// It speaks Chat Completions.
    OpenAi(openai::ClientConfig),
}

impl Server {
    /// Where it is.
    pub const fn base_url(&self) -> &Url {
        match self {
            Self::Anthropic(config) => &config.base_url,
            Self::OpenAi(config) => &config.base_url,
        }
    }

    /// The protocol.
    pub const fn provider(&self) -> Provider {
        match self {
            Self::Anthropic(_) => Provider::Anthropic,
            Self::OpenAi(_) => Provider::OpenAi,
        }
    }
}
