//! A change of the model of a session, and of the settings that follow from it.

use serde_json::value::RawValue;
use sqlx::PgConnection;

use crate::domain::ids::{SessionId, TenantId};
use crate::domain::model::Effort;
use crate::domain::model_settings::ModelSettings;
use crate::domain::run_options::RunOptions;
use crate::domain::session::Settings;
use crate::service::error::{Error, FieldError};
use crate::service::session_settings::{ModelChange, check_history};
use crate::service::state::Service;
use crate::store::session_changes::queued_options;
use crate::store::sessions::find;

/// The model settings of a session before and after a change.
pub(super) struct ChangedModel {
    before: ModelSettings,
    pub(super) after: ModelSettings,
}

/// The changed members of an event; the inner option is none for the default of the model.
type Members = (Option<String>, Option<Option<Effort>>, Option<Option<Box<RawValue>>>);

impl ChangedModel {
    /// Checks the change for a locked session: its settings, its history, and the messages that are
    /// queued. None if nothing changes.
    pub(super) async fn of(
        change: &ModelChange,
        service: &Service,
        conn: &mut PgConnection,
        (tenant, session_id): (TenantId, SessionId),
    ) -> Result<Option<Self>, Error> {
        if change.is_unset() {
            return Ok(None);
        }
        let missing = || Error::SessionNotFound(session_id.to_string());
        let mut settings = find(conn, tenant, session_id).await?.ok_or_else(missing)?.settings;
        let before = settings.model_settings();
        let Some(after) = change.apply(service, &settings)? else { return Ok(None) };
        settings.set_model(&after);
        check_history(service, conn, (tenant, session_id), &settings).await?;
        let queued = queued_options(conn, session_id).await?;
        Error::if_any(queued.iter().flat_map(|it| refusals(service, &settings, it)).collect())?;
        Ok(Some(Self { before, after }))
    }

    /// The members that have changed.
    pub(super) fn members(&self) -> Members {
        let Self { before, after } = self;
        let text = |thinking: &Option<Box<RawValue>>| {
            thinking.as_ref().map(|thinking| thinking.get().to_owned())
        };
        let has_thinking = text(&before.thinking) != text(&after.thinking);
        (
            (before.model != after.model).then(|| after.model.clone()),
            (before.effort != after.effort).then_some(after.effort),
            has_thinking.then(|| after.thinking.clone()),
        )
    }
}

/// The reasons why a queued message with these options could not be answered with these settings.
fn refusals(service: &Service, settings: &Settings, options: &RunOptions) -> Vec<FieldError> {
    if options.model_settings.is_some() {
        return Vec::new();
    }
    let rules = &service.defaults.model_rules;
    let mut settings = settings.clone();
    settings.apply(options);
    let mut found = rules.generation_problems(&settings);
    let choice = options.tool_choice.as_ref();
    let known = rules.models.find(settings.model_ref());
    let refusal = choice.and_then(|choice| settings.refuses(&known, choice, options));
    found.extend(refusal.map(|reason| FieldError::new("/tool_choice", reason)));
    if options.limits.cost.is_some() && settings.price.is_none() {
        let reason = format!("cannot be enforced: no price is known for {}", settings.model);
        found.push(FieldError::new("/limits/cost", reason));
    }
    let member = |error: FieldError| {
        let FieldError { pointer, message, .. } = error;
        let name = pointer.trim_start_matches('/');
        FieldError::new("/model", format!("is refused by a queued message: its {name} {message}"))
    };
    found.into_iter().map(member).collect()
}
