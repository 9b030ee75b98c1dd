//! The client of the model server, or of the simulator that replaces it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::net::TcpListener;

use crate::config::{Listen, ModelSource};
use crate::domain::model::Models;
use crate::domain::provider::{Dialect, MaxTokensField, Provider};
use crate::model::anthropic::Hosting;
use crate::model::{Model, ModelServers, NamedServer, Server, anthropic, openai};
use simulator::{Options as SimulatorOptions, Running, Script, Simulator};

/// The model catalog of the API, if it is refreshed from the model servers.
pub(super) fn models_to_refresh(listen: &Listen) -> Option<Arc<Models>> {
    match listen {
        Listen::Api(serve) if serve.refresh_models => {
            Some(Arc::clone(&serve.service.defaults.model_rules.models))
        }
        Listen::Api(_) | Listen::Health(_) | Listen::Nowhere => None,
    }
}

/// Creates the clients of the model servers, and starts the simulator if it is one of them.
pub(super) async fn open_models(
    source: ModelSource,
    providers: &[NamedServer],
    idle_timeout: Duration,
) -> anyhow::Result<(ModelServers, Option<Running>)> {
    let (server, simulator) = match source {
        ModelSource::Server(server) => (server, None),
        ModelSource::Simulator { script, provider } => {
            let script = script_of(script.as_deref())?;
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let simulator = Simulator::start(listener, script, SimulatorOptions::default());
            let server = simulated(&simulator.base_url(), provider, idle_timeout)?;
            (server, Some(simulator))
        }
    };
    report_lacks("default", &server);
    for provider in providers {
        report_lacks(&provider.name, &provider.server);
    }
    Ok((ModelServers::new(Model::of(&server)?, providers)?, simulator))
}

fn report_lacks(provider: &str, server: &Server) {
    let lacks = server.provider().lacks();
    if !lacks.is_empty() {
        tracing::info!(
            model.provider = provider,
            model.protocol = server.provider().as_str(),
            ?lacks,
            "the protocol of the model server lacks features"
        );
    }
}

/// Checks the sources of model replies without starting them.
pub(super) fn check_models(source: &ModelSource, providers: &[NamedServer]) -> anyhow::Result<()> {
    for provider in providers {
        Model::of(&provider.server)?;
    }
    match source {
        ModelSource::Server(server) => Model::of(server).map(drop).map_err(Into::into),
        ModelSource::Simulator { script, .. } => script_of(script.as_deref()).map(drop),
    }
}

fn script_of(path: Option<&Path>) -> anyhow::Result<Script> {
    match path {
        Some(path) => Script::from_file(path)
            .with_context(|| format!("the script {} cannot be used", path.display())),
        None => Ok(Script::demo()),
    }
}

/// The simulator as a server of this protocol.
fn simulated(base_url: &str, provider: Provider, idle_timeout: Duration) -> anyhow::Result<Server> {
    let api_key = Some("simulator".to_owned().into());
    Ok(match provider {
        Provider::Anthropic => Server::Anthropic(anthropic::ClientConfig {
            base_url: base_url.parse()?,
            api_key,
            auth_token: None,
            version: "2023-06-01".to_owned(),
            hosting: Hosting::Own,
            idle_timeout,
        }),
        Provider::OpenAi => Server::OpenAi(openai::ClientConfig {
            base_url: format!("{base_url}/v1").parse()?,
            api_key,
            dialect: Dialect {
                max_tokens_field: MaxTokensField::MaxCompletionTokens,
                takes_images: true,
            },
            idle_timeout,
        }),
        Provider::OpenAiResponses => Server::Responses(openai::responses::ClientConfig {
            base_url: format!("{base_url}/v1").parse()?,
            api_key,
            idle_timeout,
        }),
    })
}
