//! The models that may answer the requests of a run.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::domain::session::Settings;
use crate::model::server_health::ModelHealth;
use crate::model::{Head, ModelError, ModelServer};
use crate::worker::run::stop_cause::StopCause;
use crate::worker::services::Services;

/// A model that may answer the requests of a run.
#[derive(Debug)]
pub(in crate::worker) struct RunModel<'a> {
    /// Its server.
    pub(in crate::worker) server: &'a ModelServer,
    /// The circuit breaker and the retry budget of the model.
    pub(in crate::worker) health: Arc<ModelHealth>,
    /// None for the model of the session.
    fallback: Option<Fallback>,
    /// The head of its requests, when the first one is sent.
    pub(super) head: OnceLock<Head>,
}

/// A fallback model of a session.
#[derive(Debug)]
struct Fallback {
    /// Its index among the fallback models.
    index: usize,
    /// The settings of its requests.
    settings: Box<Settings>,
}

/// The models that may answer the requests of a run: that of the session, and its fallback models in
/// their order. A run begins with the first one of which the process has the provider.
#[derive(Debug)]
pub(in crate::worker) struct RunModels<'a> {
    /// At least one.
    models: Vec<RunModel<'a>>,
    /// The index of the model that is asked.
    current: AtomicUsize,
    /// The provider of the session's model, if the process has no provider of any of the models. No
    /// request is sent then.
    missing: Option<Box<str>>,
}

impl<'a> RunModel<'a> {
    fn new(server: &'a ModelServer, settings: &Settings, fallback: Option<Fallback>) -> Self {
        let health = server.health_of(settings.model_ref());
        Self { server, health, fallback, head: OnceLock::new() }
    }

    /// The settings of requests to the model, if it is a fallback.
    pub(super) fn settings(&self) -> Option<&Settings> {
        self.fallback.as_ref().map(|fallback| &*fallback.settings)
    }

    /// The index among the fallback models of the session; none for the model of the session.
    pub(in crate::worker) fn fallback_index(&self) -> Option<usize> {
        self.fallback.as_ref().map(|fallback| fallback.index)
    }
}

impl<'a> RunModels<'a> {
    /// The models of these settings.
    pub(super) fn of(services: &'a Services, settings: &Settings) -> Self {
        let servers = &services.models;
        let own = servers.of(settings.model_ref()).map(|it| RunModel::new(it, settings, None));
        let fallbacks = settings.fallback_models.iter().enumerate().filter_map(|(index, model)| {
            let settings = Box::new(settings.with_fallback(model));
            let server = servers.of(settings.model_ref())?;
            let of_model = (*settings).clone();
            Some(RunModel::new(server, &of_model, Some(Fallback { index, settings })))
        });
        let mut models: Vec<RunModel<'a>> = own.into_iter().chain(fallbacks).collect();
        let missing = models.is_empty().then(|| settings.provider.clone()).flatten();
        if models.is_empty() {
            models.push(RunModel::new(servers.default(), settings, None));
        }
        Self { models, current: AtomicUsize::new(0), missing }
    }

    /// The model that is asked.
    #[expect(
        clippy::indexing_slicing,
        reason = "there is a model, and the index is below their number"
    )]
    pub(super) fn current(&self) -> &RunModel<'a> {
        &self.models[self.position()]
    }

    /// The position of the model that is asked.
    pub(in crate::worker) fn position(&self) -> usize {
        self.current.load(Ordering::Relaxed).min(self.models.len() - 1)
    }

    /// True if another model follows that which is asked.
    pub(in crate::worker) fn has_next(&self) -> bool {
        self.position() + 1 < self.models.len()
    }

    /// Asks the next model from now on.
    pub(in crate::worker) fn advance(&self) {
        self.current.fetch_add(1, Ordering::Relaxed);
    }

    /// True if the model of the session would get thinking of these messages, which a fallback model
    /// has made.
    pub(super) fn session_would_send_thinking(&self, messages: &str) -> bool {
        let own = self.models.iter().find(|model| model.fallback.is_none());
        own.is_none_or(|own| own.server.client.sends_thinking(messages))
    }

    /// Fails if the process has the provider of no model.
    pub(super) fn check_provider(&self) -> Result<(), StopCause> {
        match &self.missing {
            Some(provider) => Err(StopCause::Model(ModelError::UnknownProvider(provider.clone()))),
            None => Ok(()),
        }
    }
}
