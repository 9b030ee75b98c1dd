//! What an agent says of the sessions that are made as it.

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::super::client_tool::SessionTool;
use super::super::sessions::CreateSession;
use crate::domain::budget::Budget;
use crate::domain::model::Effort;
use crate::domain::model_options::ServiceTier;
use crate::domain::permission::{PermissionMode, Rule};
use crate::domain::run::Limits;
use crate::domain::word::words;
use crate::http::error::ApiError;
use crate::http::extract::json_body::{object, object_lists, there};
use crate::http::inherited_fields::InheritedFields;
use crate::http::session_context::SessionContext;
use crate::http::session_system::SessionSystem;
use crate::http::sub_agents::SessionSubAgent;

/// The largest profile, in bytes.
pub(super) const MAX_PROFILE: usize = 256 * 1024;
/// The longest description, in characters.
const MAX_DESCRIPTION: usize = 500;

/// What sessions of an agent are made with, as far as their own requests do not say it. All of it is
/// optional.
#[derive(Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct AgentProfile {
    /// What the agent is for, for people; at most 500 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 500)]
    pub(super) description: Option<String>,
    /// The model's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 200)]
    model: Option<String>,
    /// The output budget of one request to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 128_000)]
    max_tokens: Option<u32>,
    /// The system prompt: a text, or blocks of text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) system: Option<SessionSystem>,
    /// The tools, as a session names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tools: Option<Vec<SessionTool>>,
    /// The thinking setting, passed to the model as it is, where the model takes its `type`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    thinking: Option<Box<RawValue>>,
    /// Strings that end an answer.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "there")]
    #[schema(value_type = Vec<String>)]
    stop_sequences: Option<Vec<String>>,
    /// How much work the model puts into an answer.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "words")]
    effort: Option<Effort>,
    /// Which capacity requests to the model may use.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "words")]
    service_tier: Option<ServiceTier>,
    /// A JSON Schema that answers have to fit, at most 32 kB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    output_schema: Option<Box<RawValue>>,
    /// Names of beta features of the model's API, at most 16.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "there")]
    #[schema(value_type = Vec<String>, max_items = 16)]
    betas: Option<Vec<String>>,
    /// How the conversation is kept within the model's window. A session's own members win one by
    /// one.
    #[serde(
        default,
        skip_serializing_if = "SessionContext::is_unset",
        deserialize_with = "object"
    )]
    context: SessionContext,
    /// The limits of runs that name none. A session's own members win one by one.
    #[serde(default, skip_serializing_if = "Limits::is_open", deserialize_with = "object")]
    limits: Limits,
    /// What a session may spend over its whole life. Its own members win one by one.
    #[serde(default, skip_serializing_if = "Budget::is_open", deserialize_with = "object")]
    budget: Budget,
    /// What becomes of calls that no rule speaks of. `bypass` must have been enabled by the
    /// operator.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "words")]
    permission_mode: Option<PermissionMode>,
    /// Rules for calls, at most 200. A session that has rules of its own has none of these.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object_lists")]
    #[schema(value_type = Vec<Rule>, max_items = 200)]
    permissions: Option<Vec<Rule>>,
    /// The sub-agents that the model may start with the tool `Task`, at most 16.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object_lists")]
    #[schema(value_type = Vec<SessionSubAgent>, max_items = 16)]
    sub_agents: Option<Vec<SessionSubAgent>>,
}

impl AgentProfile {
    /// What is wrong with what is its own, and no session's.
    pub(super) fn check(&self) -> Result<(), ApiError> {
        let description = self.description.as_deref().unwrap_or_default();
        if description.chars().count() > MAX_DESCRIPTION {
            let message = format!("is longer than {MAX_DESCRIPTION} characters");
            return Err(ApiError::field("/description", message));
        }
        if description.contains('\0') {
            return Err(ApiError::field("/description", "has a NUL"));
        }
        Ok(())
    }

    /// The form in which it is kept: what says the same in the same order is the same text.
    pub(super) fn text(&self) -> Result<Box<RawValue>, ApiError> {
        let text = to_raw_value(self).map_err(|error| ApiError::Internal(error.to_string()))?;
        if text.get().len() > MAX_PROFILE {
            return Err(ApiError::field("", format!("is larger than {MAX_PROFILE} bytes")));
        }
        Ok(text)
    }

    /// Fills in what a session does not say itself, and tells what that is.
    ///
    /// Lists and texts are one member: to add to a list would leave nobody a way to shorten it.
    pub(super) fn fill(self, session: &mut CreateSession) -> InheritedFields {
        let Self { description: _, context, limits, budget, .. } = self;
        let mut taken = InheritedFields::default();
        taken.fill("/model", &mut session.model, self.model);
        taken.fill("/max_tokens", &mut session.max_tokens, self.max_tokens);
        taken.fill("/system", &mut session.system, self.system);
        taken.fill("/tools", &mut session.tools, self.tools);
        taken.fill("/thinking", &mut session.thinking, self.thinking);
        taken.fill("/stop_sequences", &mut session.stop_sequences, self.stop_sequences);
        taken.fill("/effort", &mut session.effort, self.effort);
        taken.fill("/service_tier", &mut session.service_tier, self.service_tier);
        taken.fill("/output_schema", &mut session.output_schema, self.output_schema);
        taken.fill("/betas", &mut session.betas, self.betas);
        taken.fill("/permission_mode", &mut session.permission_mode, self.permission_mode);
        taken.fill("/permissions", &mut session.permissions, self.permissions);
        taken.fill("/sub_agents", &mut session.sub_agents, self.sub_agents);
        session.context.fill(context, &mut taken);
        let Limits { rounds, tokens, cost, seconds } = limits;
        taken.fill("/limits/rounds", &mut session.limits.rounds, rounds);
        taken.fill("/limits/tokens", &mut session.limits.tokens, tokens);
        taken.fill("/limits/cost", &mut session.limits.cost, cost);
        taken.fill("/limits/seconds", &mut session.limits.seconds, seconds);
        let Budget { tokens, cost } = budget;
        taken.fill("/budget/tokens", &mut session.budget.tokens, tokens);
        taken.fill("/budget/cost", &mut session.budget.cost, cost);
        taken
    }
}
