//! The protocol and the address of the model's server.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::{ArgAction, Args};
use reqwest::Url;
use secrecy::SecretString;

use super::args::WorkArgs;
use super::environment::secret;
use super::model_providers::ModelProviders;
use crate::domain::provider::{Dialect, MaxTokensField, Provider, is_openai};
use crate::model::anthropic::Hosting;
use crate::model::{Server, anthropic, openai};

pub(super) const ANTHROPIC_URL: &str = "https://api.anthropic.com";
/// The environment variable with a bearer token for the Messages API, which gateways expect instead of a
/// key.
pub(super) const ANTHROPIC_TOKEN: &str = "ANTHROPIC_AUTH_TOKEN";
const OPENAI_URL: &str = "https://api.openai.com/v1";

/// Options for the protocol of the model's server.
#[derive(Debug, Clone, Args)]
pub struct ProviderArgs {
    /// Protocol of the model's server
    #[arg(long, env = "TWOSTEP_PROVIDER", value_enum, default_value = "anthropic")]
    pub provider: Provider,
    /// Base URL of a server of Chat Completions or Responses, with its version path; the key is read from
    /// `OPENAI_API_KEY`
    #[arg(long, env = "OPENAI_BASE_URL", default_value = OPENAI_URL)]
    pub openai_base_url: Url,
    /// Name of the request member that limits output tokens
    /// [default: `max_completion_tokens` for api.openai.com, otherwise `max_tokens`]
    #[arg(
        long,
        env = "TWOSTEP_MAX_TOKENS_FIELD",
        value_enum,
        value_name = "NAME",
        hide_possible_values = true
    )]
    pub max_tokens_field: Option<MaxTokensField>,
    /// Send images to the Chat Completions server; otherwise a text replaces them
    #[arg(long, env = "TWOSTEP_OPENAI_IMAGES", default_value = "true",
          default_missing_value = "true", num_args = 0..=1, action = ArgAction::Set)]
    pub openai_images: bool,
    /// Further providers, whose models are named `provider/model`: JSON file, by name; must be the same
    /// for all processes [default: none]
    #[arg(long, env = "TWOSTEP_MODEL_PROVIDERS", value_name = "FILE")]
    pub model_providers: Option<PathBuf>,
}

impl ProviderArgs {
    /// The name of the environment variable with the API key.
    pub(super) const fn key_name(&self) -> &'static str {
        match self.provider {
            Provider::Anthropic => "ANTHROPIC_API_KEY",
            Provider::OpenAi | Provider::OpenAiResponses => "OPENAI_API_KEY",
        }
    }

    fn is_at_openai(&self) -> bool {
        is_openai(self.openai_base_url.host_str())
    }

    fn dialect(&self) -> Dialect {
        let usual = MaxTokensField::usual(self.is_at_openai());
        Dialect {
            max_tokens_field: self.max_tokens_field.unwrap_or(usual),
            takes_images: self.openai_images,
        }
    }
}

impl WorkArgs {
    /// The named providers.
    pub(super) fn model_providers(&self) -> anyhow::Result<ModelProviders> {
        let path = self.provider.model_providers.as_deref();
        let providers = path.map(ModelProviders::read).transpose()?.unwrap_or_default();
        if self.offline && !providers.is_empty() {
            bail!(
                "--model-providers cannot be combined with --offline, which contacts no model server"
            );
        }
        Ok(providers)
    }

    /// Returns true if the server rejects schemas with optional members. Only the original server
    /// does; compatible servers accept them.
    pub(super) fn refuses_optional(&self) -> bool {
        let provider = &self.provider;
        !self.offline && provider.provider != Provider::Anthropic && provider.is_at_openai()
    }

    /// The model's server. Self-hosted servers may work without a key.
    pub(super) fn server(&self, idle_timeout: Duration) -> anyhow::Result<Server> {
        let name = self.provider.key_name();
        let api_key = secret(name)?.map(SecretString::from);
        let is_anthropic = self.provider.provider == Provider::Anthropic;
        let token = if is_anthropic && api_key.is_none() { secret(ANTHROPIC_TOKEN)? } else { None };
        let auth_token = token.map(SecretString::from);
        let needs_key = match self.provider.provider {
            Provider::Anthropic => self.anthropic_base_url.as_str().starts_with(ANTHROPIC_URL),
            Provider::OpenAi | Provider::OpenAiResponses => self.provider.is_at_openai(),
        };
        if api_key.is_none() && auth_token.is_none() && needs_key {
            bail!(
                "no model: set {name} or {name}_FILE to use the provider, or --offline to use the built-in \
                 simulator"
            );
        }
        Ok(match self.provider.provider {
            Provider::Anthropic => Server::Anthropic(anthropic::ClientConfig {
                base_url: self.anthropic_base_url.clone(),
                api_key,
                auth_token,
                version: self.anthropic_version.clone(),
                hosting: Hosting::Own,
                idle_timeout,
            }),
            Provider::OpenAi => Server::OpenAi(openai::ClientConfig {
                base_url: self.provider.openai_base_url.clone(),
                api_key,
                dialect: self.provider.dialect(),
                idle_timeout,
            }),
            Provider::OpenAiResponses => Server::Responses(openai::responses::ClientConfig {
                base_url: self.provider.openai_base_url.clone(),
                api_key,
                idle_timeout,
            }),
        })
    }
}
