//! The facts of a run that do not change while it is driven.

use serde_json::value::RawValue;

use super::run_model::{RunModel, RunModels};
use super::signals::Signals;
use super::stop_cause::StopCause;
use crate::domain::claim::Claimed;
use crate::domain::ids::{RunId, SessionId};
use crate::domain::limits::Limits;
use crate::domain::model_settings::ModelSettings;
use crate::domain::session::Settings;
use crate::domain::tool::ToolChoice;
use crate::model::Head;
use crate::store::StoreError;
use crate::store::retry::{DatabaseFailure as _, Retry, retry_while_unavailable};
use crate::worker::services::Services;

/// The facts of a run that do not change while it is driven.
#[derive(Debug)]
pub(in crate::worker) struct RunContext<'a> {
    pub(in crate::worker) services: &'a Services,
    pub(in crate::worker) claim: Claimed,
    pub(in crate::worker) signals: Signals,
    /// The limits of the message, completed by those of the session.
    pub(in crate::worker) limits: Limits,
    /// The models that may answer.
    pub(in crate::worker) models: RunModels<'a>,
}

impl<'a> RunContext<'a> {
    pub(in crate::worker) fn new(
        services: &'a Services,
        mut claim: Claimed,
        signals: Signals,
    ) -> Self {
        claim.settings.apply(&claim.options);
        let limits = claim.options.limits.or(&claim.settings.limits);
        let models = RunModels::of(services, &claim.settings);
        Self { services, claim, signals, limits, models }
    }

    pub(in crate::worker) fn run_id(&self) -> RunId {
        self.claim.fence.run_id
    }

    pub(in crate::worker) fn session_id(&self) -> SessionId {
        self.claim.session_id
    }

    /// The settings of requests to the model that is asked.
    pub(in crate::worker) fn settings(&self) -> &Settings {
        self.model().settings().unwrap_or(&self.claim.settings)
    }

    /// The model that is asked: that of the session, or one of its fallback models.
    pub(in crate::worker) fn model(&self) -> &RunModel<'a> {
        self.models.current()
    }

    /// True if a fallback model answers.
    pub(in crate::worker) fn has_fallen_back(&self) -> bool {
        self.model().fallback_index().is_some()
    }

    /// The head of the requests of the loop to the model that is asked.
    pub(in crate::worker) fn model_head(&self) -> Result<&Head, StopCause> {
        let head = &self.model().head;
        if let Some(head) = head.get() {
            return Ok(head);
        }
        let new = self.head(self.settings())?;
        Ok(head.get_or_init(|| new))
    }

    /// The model settings of the run, if they are not those that the session pinned.
    pub(in crate::worker) fn model_settings(&self) -> Option<&ModelSettings> {
        let claim = &self.claim;
        claim.options.model_settings.as_deref().or(claim.model_settings.as_deref())
    }

    /// The tool definitions that only this run has.
    pub(in crate::worker) fn run_tools(&self) -> Option<&RawValue> {
        self.claim.options.tools.as_deref()
    }

    /// The tool choice of the first request.
    pub(in crate::worker) fn first_choice(&self) -> ToolChoice {
        let session = self.settings().model_options.tool_choice.as_ref();
        ToolChoice::of_run(self.claim.options.tool_choice.as_ref(), session)
    }

    /// The tool choice of the requests after the first.
    pub(in crate::worker) fn later_choice(&self) -> ToolChoice {
        let session = self.settings().model_options.tool_choice.as_ref();
        ToolChoice::of_later_rounds(self.claim.options.tool_choice.as_ref(), session)
    }

    /// The head of requests with these settings.
    pub(in crate::worker) fn head(&self, settings: &Settings) -> Result<Head, StopCause> {
        let cache = self.services.prompt_cache;
        Ok(self.model().server.client.head(settings, self.run_tools(), cache)?)
    }

    /// Runs database work, and again while the database is unavailable, until the lease is lost or
    /// the run must be released. `operation` receives `true` if an earlier try failed, which may have
    /// been committed all the same.
    pub(in crate::worker) async fn retry<T, F>(
        &self,
        operation: impl FnMut(bool) -> F,
    ) -> Result<T, StopCause>
    where
        F: Future<Output = Result<T, StopCause>>,
    {
        let stop = self.signals.lost_or_released();
        let result = retry_while_unavailable(stop, operation).await;
        result.map_err(|error| self.unless_lost(error))
    }

    /// Pauses before database work is repeated; returns the error if it must not be repeated.
    pub(in crate::worker) async fn pause(
        &self,
        retry: &mut Retry,
        error: StopCause,
    ) -> Result<(), StopCause> {
        let result = retry.pause(error, self.signals.lost_or_released()).await;
        result.map_err(|error| self.unless_lost(error))
    }

    /// A lost lease is the cause of all that fails after it.
    fn unless_lost(&self, error: StopCause) -> StopCause {
        let is_temporary = error.store_error().is_some_and(StoreError::may_pass);
        if is_temporary && self.signals.lost.is_cancelled() { StopCause::LeaseLost } else { error }
    }
}
