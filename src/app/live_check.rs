//! One small request to the configured model server, which shows what a user's first message would meet.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use reqwest::Url;
use tokio::time::timeout;

use super::model::open_models;
use crate::config::{Config, Listen, ModelSource};
use crate::domain::provider::Provider;
use crate::domain::sampling::Prompt;
use crate::domain::session::Settings;
use crate::domain::tool::ToolChoice;
use crate::domain::usage::Usage;
use crate::model::{Messages, Model, ModelError, Reply};

/// The prompt of the request. Models that think before they answer need some tokens more than the word.
const PROMPT: Prompt<'_> = Prompt { system: None, text: "Reply with the word OK.", max_tokens: 64 };
/// The time that the request may take.
const TIME_LIMIT: Duration = Duration::from_mins(1);

/// The answer of a model server.
#[derive(Debug)]
pub struct LiveAnswer {
    /// The address of the server, or the name of the simulator.
    pub server: String,
    /// The protocol of the server.
    pub provider: Provider,
    /// The model's name.
    pub model: String,
    /// The tokens that the request has used.
    pub usage: Usage,
    /// The time from the request to the end of the reply.
    pub took: Duration,
}

/// Asks a model of each provider for one word, the default model of new sessions first: of a named
/// provider the first model that is known of it.
///
/// # Errors
///
/// If the process sends no requests to a model, or if no model of a provider is known. The error of a
/// provider has its message and says what to change.
pub async fn check_live(config: &Config) -> anyhow::Result<Vec<anyhow::Result<LiveAnswer>>> {
    let (Some(work), Listen::Api(serve)) = (&config.work, &config.listen) else {
        bail!("this process sends no requests to a model: --live needs an API and a worker");
    };
    let defaults = &serve.service.defaults;
    let known = &defaults.model_rules.models;
    let mut names = vec![(defaults.model.clone(), address_of(&work.model))];
    for provider in &work.providers {
        let prefix = format!("{}/", provider.name);
        let first = known.list().into_iter().find(|(name, _)| name.starts_with(&prefix));
        let address = address(provider.server.base_url());
        let name = first.map(|(name, _)| name).with_context(|| {
            format!(
                "{address} cannot be asked: no model of {} is known; add one to its capabilities",
                provider.name
            )
        })?;
        names.push((name, address));
    }
    let idle = work.model_idle_timeout;
    let (servers, simulator) = open_models(work.model.clone(), &work.providers, idle).await?;
    let mut answers = Vec::new();
    for (name, address) in names {
        let model = known.locate(&name);
        let server = servers.of(model).unwrap_or_else(|| servers.default());
        let provider = model.provider.map(Box::from);
        let settings = Settings { model: name, provider, ..Settings::default() };
        answers.push(answer(&server.client, &settings, address).await);
    }
    if let Some(simulator) = simulator {
        simulator.stop().await;
    }
    Ok(answers)
}

/// The address of the default provider.
fn address_of(source: &ModelSource) -> String {
    match source {
        ModelSource::Server(server) => address(server.base_url()),
        ModelSource::Simulator { .. } => "the simulator".to_owned(),
    }
}

async fn answer(model: &Model, settings: &Settings, server: String) -> anyhow::Result<LiveAnswer> {
    let started = Instant::now();
    let answered = timeout(TIME_LIMIT, ask(model, settings)).await;
    let took = started.elapsed();
    let answered = answered.unwrap_or(Err(ModelError::Idle(TIME_LIMIT)));
    let reply = answered.map_err(|error| {
        let report = error.for_clients();
        let kind = report.reason.unwrap_or_default();
        anyhow::anyhow!("{kind}: {}", report.message)
    });
    let name = settings.model.clone();
    let reply = reply.with_context(|| format!("{server} does not answer for the model {name}"))?;
    Ok(LiveAnswer { server, provider: model.provider(), model: name, usage: reply.usage, took })
}

/// The address of a server, without the credentials that a URL can have.
fn address(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

async fn ask(model: &Model, settings: &Settings) -> Result<Reply, ModelError> {
    let settings = settings.for_prompt(PROMPT);
    let head = model.head(&settings, None, None);
    let head = head.map_err(|error| ModelError::Malformed(error.to_string()))?;
    let text = PROMPT.messages();
    let messages =
        Messages { text: &text, far_breakpoint: None, is_compacted: false, container: None };
    let mut stream = model.send(head.request(messages, &ToolChoice::AUTO)).await?;
    while stream.next().await?.is_some() {}
    stream.finish()
}
