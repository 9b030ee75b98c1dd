//! The model that answers the requests of a run.

use std::sync::Arc;

use crate::domain::session::Settings;
use crate::model::server_health::ModelHealth;
use crate::model::{ModelError, ModelServer};
use crate::worker::run::stop_cause::StopCause;
use crate::worker::services::Services;

/// The model that answers the requests of a run.
#[derive(Debug)]
pub(in crate::worker) struct RunModel<'a> {
    /// Its server; that of the default provider if the process does not have the provider.
    pub(in crate::worker) server: &'a ModelServer,
    /// The circuit breaker and the retry budget of the model.
    pub(in crate::worker) health: Arc<ModelHealth>,
    /// The provider of the model, if the process does not have it. No request is sent then.
    missing: Option<Box<str>>,
}

impl<'a> RunModel<'a> {
    /// The model of these settings.
    pub(in crate::worker) fn of(services: &'a Services, settings: &Settings) -> Self {
        let model = settings.model_ref();
        let found = services.models.of(model);
        let missing = model.provider.filter(|_| found.is_none()).map(Box::from);
        let server = found.unwrap_or_else(|| services.models.default());
        Self { server, health: server.health_of(model), missing }
    }

    /// Fails if the process does not have the provider of the model.
    pub(in crate::worker) fn check_provider(&self) -> Result<(), StopCause> {
        match &self.missing {
            Some(provider) => Err(StopCause::Model(ModelError::UnknownProvider(provider.clone()))),
            None => Ok(()),
        }
    }
}
