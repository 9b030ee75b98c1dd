//! The simulator as a model server in the configuration of the service.

use std::time::Duration;

use serde_json::Value;
use simulator::{Options, Running, Script, Simulator};
use tokio::net::TcpListener;
use twostep::domain::provider::{Dialect, MaxTokensField, Provider};
use twostep::model::anthropic::Hosting;
use twostep::model::{NamedServer, Server, anthropic, openai};

use super::Upstream;
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
            hosting: Hosting::Own,
            idle_timeout,
        }),
        Provider::OpenAi => Server::OpenAi(openai::ClientConfig {
            base_url: format!("{}/v1", simulator.base_url()).parse().unwrap(),
            api_key,
            dialect: Dialect { max_tokens_field: MaxTokensField::MaxTokens, takes_images: true },
            idle_timeout,
        }),
        Provider::OpenAiResponses => Server::Responses(openai::responses::ClientConfig {
            base_url: format!("{}/v1", simulator.base_url()).parse().unwrap(),
            api_key,
            idle_timeout,
        }),
    }
}

/// A named model provider, whose server is a simulator of its own.
pub(crate) struct NamedProvider {
    pub(crate) simulator: Running,
    pub(crate) server: NamedServer,
}

impl NamedProvider {
    /// Starts a server of this protocol that plays the script.
    pub(crate) async fn start(name: &str, provider: Provider, script: &Value) -> Self {
        let script = Script::from_json(&script.to_string()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let simulator = Simulator::start(listener, script, Options::recording());
        let server = of(&simulator, provider, Duration::from_secs(10));
        let server = NamedServer { name: name.into(), server, max_requests: None };
        Self { simulator, server }
    }

    /// The requests that its server has received.
    pub(crate) fn upstream(&self) -> Upstream {
        Upstream::of(&self.simulator)
    }

    /// Makes its server play another script from the next request on.
    pub(crate) fn play(&self, script: &Value) {
        self.simulator.set_script(Script::from_json(&script.to_string()).unwrap());
    }
}
