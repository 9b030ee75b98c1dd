//! The simulator as a model server in the configuration of the service.

use std::time::Duration;

use simulator::Running;
use twostep::domain::provider::{Dialect, MaxTokensField, Provider};
use twostep::model::{Server, anthropic, openai};

use super::kept_output::MODEL_KEY;

/// The configuration of the simulator as a server of this protocol.
pub(super) fn of(simulator: &Running, provider: Provider, idle_timeout: Duration) -> Server {
    let api_key = Some(MODEL_KEY.to_owned().into());
    match provider {
        Provider::Anthropic => Server::Anthropic(anthropic::ClientConfig {
            base_url: simulator.base_url().parse().unwrap(),
            api_key,
            auth_token: None,
            version: "2023-06-01".to_owned(),
            idle_timeout,
        }),
        Provider::OpenAi => Server::OpenAi(openai::ClientConfig {
            base_url: format!("{}/v1", simulator.base_url()).parse().unwrap(),
            api_key,
            dialect: Dialect { max_tokens_field: MaxTokensField::MaxTokens, takes_images: true },
            idle_timeout,
        }),
    }
}
