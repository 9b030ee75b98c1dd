//! Changes of the model, the effort and the thinking setting of a session: for all runs from the next
//! one on, or for the run of one message.

use serde::Serialize;
use serde_json::value::RawValue;
use sqlx::PgConnection;

use super::members::{NOT_READABLE, is_readable_object, model_problem};
use super::sub_agents::check_models as check_sub_agents;
use super::unstorable_text;
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::model::{Effort, ModelRef};
use crate::domain::model_settings::ModelSettings;
use crate::domain::session::Settings;
use crate::service::content::check_model_support;
use crate::service::error::{Error, FieldError};
use crate::service::session_tools::server_tools_for;
use crate::service::state::Service;
use crate::store::files::resolve;
use crate::store::media::list_contents;
use crate::store::requests::counted;
use crate::store::sent_changes::sent_state;

/// The members that a client wants to change. The outer option is none for a member that stays, the
/// inner one for the default of the model.
#[expect(clippy::option_option, reason = "null differs from an absent member")]
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct ModelChange {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) effort: Option<Option<Effort>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) thinking: Option<Option<Box<RawValue>>>,
}

impl ModelChange {
    /// The change to another model.
    pub(crate) fn to_model(model: Option<String>) -> Self {
        Self { model, ..Self::default() }
    }

    /// True if no member is given.
    pub(crate) const fn is_unset(&self) -> bool {
        self.model.is_none() && self.effort.is_none() && self.thinking.is_none()
    }

    /// The model, if nothing else is given.
    pub(crate) fn only_model(&self) -> Option<&str> {
        self.model.as_deref().filter(|_| self.effort.is_none() && self.thinking.is_none())
    }

    /// The members that no session can have.
    pub(crate) fn problems(&self) -> Vec<FieldError> {
        let model = self.model.as_deref().and_then(model_problem);
        let mut errors: Vec<FieldError> =
            model.map(|problem| FieldError::new("/model", problem)).into_iter().collect();
        let thinking = self.thinking.iter().flatten();
        if thinking.map(|raw| raw.get()).any(|json| !is_readable_object(json)) {
            errors.push(FieldError::new("/thinking", NOT_READABLE));
        }
        errors
    }

    /// The changed settings of a session with these settings, checked like those of a new session; none
    /// if they are as before.
    pub(in crate::service) fn apply(
        &self,
        service: &Service,
        before: &Settings,
    ) -> Result<Option<ModelSettings>, Error> {
        Error::if_any(self.problems())?;
        let mut new = before.model_settings();
        if let Some(model) = self.model.as_ref().filter(|model| **model != before.model) {
            let rules = &service.defaults.model_rules;
            let provider = rules.provider_of(model, "/model");
            new.provider = provider.map_err(|error| Error::Validation(vec![error]))?;
            let model_ref = ModelRef::pinned(model, new.provider.as_deref());
            new.model.clone_from(model);
            new.price = service.defaults.prices.current().get(model).copied();
            new.compact_at = rules.compact_at_after(model_ref, before);
            new.compact_max_tokens =
                new.compact_at.and_then(|_| rules.compact_max_tokens(model_ref, before.max_tokens));
            let server_tools = server_tools_for(service, model_ref, &before.tools)?;
            new.server_tools = server_tools;
            new.tool_search = before.deferred_tools.is_some() && rules.has_tool_search(model_ref);
        }
        if let Some(effort) = self.effort {
            new.effort = effort;
        }
        if let Some(thinking) = &self.thinking {
            new.thinking.clone_from(thinking);
        }
        if new == before.model_settings() {
            return Ok(None);
        }
        let mut after = before.clone();
        after.set_model(&new);
        let mut errors = unstorable_text::problems(&after)?;
        errors.extend(cost_problem(&after));
        errors.extend(service.defaults.model_rules.model_problems(&after));
        Error::if_any(errors)?;
        check_sub_agents(service, &after)?;
        Ok(Some(new))
    }
}

/// A limit of cost that cannot be enforced.
fn cost_problem(settings: &Settings) -> Option<FieldError> {
    let Settings { model, price, limits, budget, .. } = settings;
    let costs = [("/limits/cost", limits.cost), ("/budget/cost", budget.cost)];
    let (pointer, _) = costs.iter().find(|(_, cost)| cost.is_some() && price.is_none())?;
    let message = format!(
        "cannot be enforced: the operator has set no price for {model}; prices are set with --prices"
    );
    Some(FieldError::new(*pointer, message))
}

/// Refuses a model that is known not to accept the history of a session.
pub(in crate::service) async fn check_history(
    service: &Service,
    conn: &mut PgConnection,
    (tenant, session_id): (TenantId, SessionId),
    settings: &Settings,
) -> Result<(), Error> {
    let model = &settings.model;
    let known = service.defaults.model_rules.models.find(settings.model_ref());
    let refused = |reason: String| Err(Error::field("/model", reason));
    if let Some(most) = known.max_input_tokens
        && let Some(newest) = counted(conn, session_id).await?
        && u64::try_from(newest.measured.tokens).is_ok_and(|tokens| tokens > most)
    {
        let tokens = newest.measured.tokens;
        return refused(format!(
            "cannot be {model}: the conversation had {tokens} tokens with its last request, and the \
             model takes at most {most}"
        ));
    }
    if known.compaction == Some(false)
        && sent_state(conn, session_id).await?.view.compaction.is_some()
    {
        return refused(format!(
            "cannot be {model}: a summary replaces the beginning of the conversation, and the model does \
             not accept summaries"
        ));
    }
    let platform = service.defaults.model_rules.models.platform(settings.model_ref());
    let takes_media = known.image_input != Some(false) && known.pdf_input != Some(false);
    if takes_media && platform.is_none() {
        return Ok(());
    }
    let mut contents = list_contents(conn, tenant, session_id).await?;
    resolve(conn, contents.iter_mut().collect()).await?;
    let contents: Vec<(String, &str)> =
        contents.iter().map(|content| (String::new(), content.as_str())).collect();
    match check_model_support(&service.defaults.model_rules.models, settings, &contents).await {
        Err(Error::Validation(errors)) => {
            let reason = errors.into_iter().next().map(|error| error.message).unwrap_or_default();
            refused(format!("cannot be {model}: content of the conversation {reason}"))
        }
        checked => checked,
    }
}
