//! Agent profiles: the session settings that an agent supplies.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::domain::budget::Budget;
use crate::domain::limits::Limits;
use crate::domain::model::Effort;
use crate::domain::model_options::ServiceTier;
use crate::domain::permission::{PermissionMode, Rule};
use crate::domain::session::InterruptedReplies;
use crate::domain::string_enum::optional_string_enum;
use crate::domain::tool::ToolChoice;
use crate::service::client_tool::SessionTool;
use crate::service::error::Error;
use crate::service::inherited_fields::InheritedFields;
use crate::service::json::{not_null, object, object_lists, some_object};
use crate::service::metadata::metadata_problem;
use crate::service::session_settings::{
    CreateSession, SessionContext, SessionSubAgent, SessionSystem,
};

/// Maximum size of a profile, in bytes.
pub(super) const MAX_PROFILE: usize = 256 * 1024;
/// Maximum length of a description, in characters.
const MAX_DESCRIPTION: usize = 500;
/// Maximum length of a name for display, in characters.
const MAX_DISPLAY_NAME: usize = 256;

/// The settings that an agent supplies to sessions whose requests leave them out. All members are
/// optional.
#[derive(Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentProfile {
    /// A description of the agent's purpose for users, at most 500 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 500)]
    pub(crate) description: Option<String>,
    /// A name for display, at most 256 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub(crate) display_name: Option<String>,
    /// Metadata of the agent, which its sessions do not get: at most 16 strings of at most 512
    /// characters, with names of at most 64.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) metadata: BTreeMap<String, String>,
    /// The name of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 200)]
    model: Option<String>,
    /// The models that answer while the model is unavailable, in their order, at most 3.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "not_null")]
    #[schema(value_type = Vec<String>, max_items = 3)]
    fallback_models: Option<Vec<String>>,
    /// The maximum number of output tokens of one model request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 128_000)]
    max_tokens: Option<u32>,
    /// The system prompt: a string or an array of text blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) system: Option<SessionSystem>,
    /// The tools, in the form of a session's `tools`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tools: Option<Vec<SessionTool>>,
    /// The tools whose definitions the model does not see at first: names, or patterns with `*`; at
    /// most 200.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "not_null")]
    #[schema(value_type = Vec<String>, max_items = 200)]
    deferred_tools: Option<Vec<String>>,
    /// The thinking configuration. It is passed to the model unchanged if the model supports its
    /// `type`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    thinking: Option<Box<RawValue>>,
    /// Strings that stop the generation of a reply.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "not_null")]
    #[schema(value_type = Vec<String>)]
    stop_sequences: Option<Vec<String>>,
    /// The treatment of a reply during which the client stops its run.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "optional_string_enum"
    )]
    interrupted_replies: Option<InterruptedReplies>,
    /// True if the model makes titles for sessions that have none.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "not_null")]
    #[schema(value_type = bool)]
    generate_title: Option<bool>,
    /// The temperature of sampling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 2)]
    temperature: Option<f64>,
    /// The probability mass of nucleus sampling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    top_p: Option<f64>,
    /// The number of most likely tokens that are sampled from. Only in the Messages API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    top_k: Option<u32>,
    /// The seed of sampling. Only in Chat Completions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seed: Option<i64>,
    /// Members that are added to the model requests unchanged, at most 16 kB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    extra_body: Option<Box<RawValue>>,
    /// The effort that the model spends on a reply.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "optional_string_enum"
    )]
    effort: Option<Effort>,
    /// The service tier of model requests.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "optional_string_enum"
    )]
    service_tier: Option<ServiceTier>,
    /// A JSON Schema for the final answer, at most 32 kB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    output_schema: Option<Box<RawValue>>,
    /// Names of beta features of the model's API, at most 16.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "not_null")]
    #[schema(value_type = Vec<String>, max_items = 16)]
    betas: Option<Vec<String>>,
    /// The tool choice of messages that have none.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "some_object")]
    #[schema(value_type = ToolChoice)]
    tool_choice: Option<ToolChoice>,
    /// Context management. Each member of a session's own `context` takes precedence.
    #[serde(
        default,
        skip_serializing_if = "SessionContext::is_unset",
        deserialize_with = "object"
    )]
    context: SessionContext,
    /// The limits of runs that specify none. Each member of a session's own `limits` takes
    /// precedence.
    #[serde(default, skip_serializing_if = "Limits::is_open", deserialize_with = "object")]
    limits: Limits,
    /// The budget of a session over its whole life. Each member of a session's own `budget` takes
    /// precedence.
    #[serde(default, skip_serializing_if = "Budget::is_open", deserialize_with = "object")]
    budget: Budget,
    /// The decision on calls that no rule matches. `bypass` is accepted only if the operator has
    /// enabled it.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "optional_string_enum"
    )]
    permission_mode: Option<PermissionMode>,
    /// Permission rules, at most 200. Rules of a session's own replace all of them.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object_lists")]
    #[schema(value_type = Vec<Rule>, max_items = 200)]
    permissions: Option<Vec<Rule>>,
    /// The sub-agents that the model may start with the tool `Task`, at most 16.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object_lists")]
    #[schema(value_type = Vec<SessionSubAgent>, max_items = 16)]
    sub_agents: Option<Vec<SessionSubAgent>>,
}

impl AgentProfile {
    /// Checks the members that a session does not have.
    pub(super) fn check(&self) -> Result<(), Error> {
        let description = self.description.as_deref().unwrap_or_default();
        if description.chars().count() > MAX_DESCRIPTION {
            let message = format!("is longer than {MAX_DESCRIPTION} characters");
            return Err(Error::field("/description", message));
        }
        if description.contains('\0') {
            return Err(Error::field("/description", "has a NUL character"));
        }
        if self.display_name.as_ref().is_some_and(|name| name.chars().count() > MAX_DISPLAY_NAME) {
            let message = format!("is longer than {MAX_DISPLAY_NAME} characters");
            return Err(Error::field("/display_name", message));
        }
        match metadata_problem(&self.metadata) {
            Some(problem) => Err(Error::field("/metadata", problem)),
            None => Ok(()),
        }
    }

    /// The stored form. Equal profiles have equal texts.
    pub(super) fn text(&self) -> Result<Box<RawValue>, Error> {
        let text = to_raw_value(self).map_err(Error::internal)?;
        if text.get().len() > MAX_PROFILE {
            return Err(Error::field("", format!("is larger than {MAX_PROFILE} bytes")));
        }
        Ok(text)
    }

    /// Fills the absent members of a request, and returns their pointers.
    ///
    /// A list or a text is taken whole: if lists were merged, a session could not have a shorter one
    /// than its agent.
    pub(super) fn fill(self, request: &mut CreateSession) -> InheritedFields {
        let Self { description: _, display_name: _, metadata: _, context, limits, budget, .. } =
            self;
        let mut inherited = InheritedFields::default();
        inherited.fill("/model", &mut request.model, self.model);
        let fallbacks = self.fallback_models;
        inherited.fill("/fallback_models", &mut request.fallback_models, fallbacks);
        inherited.fill("/max_tokens", &mut request.max_tokens, self.max_tokens);
        inherited.fill("/system", &mut request.system, self.system);
        inherited.fill("/tools", &mut request.tools, self.tools);
        inherited.fill("/deferred_tools", &mut request.deferred_tools, self.deferred_tools);
        inherited.fill("/thinking", &mut request.thinking, self.thinking);
        inherited.fill("/stop_sequences", &mut request.stop_sequences, self.stop_sequences);
        let interrupted = self.interrupted_replies;
        inherited.fill("/interrupted_replies", &mut request.interrupted_replies, interrupted);
        inherited.fill("/generate_title", &mut request.generate_title, self.generate_title);
        inherited.fill("/temperature", &mut request.temperature, self.temperature);
        inherited.fill("/top_p", &mut request.top_p, self.top_p);
        inherited.fill("/top_k", &mut request.top_k, self.top_k);
        inherited.fill("/seed", &mut request.seed, self.seed);
        inherited.fill("/extra_body", &mut request.extra_body, self.extra_body);
        inherited.fill("/effort", &mut request.effort, self.effort);
        inherited.fill("/service_tier", &mut request.service_tier, self.service_tier);
        inherited.fill("/output_schema", &mut request.output_schema, self.output_schema);
        inherited.fill("/betas", &mut request.betas, self.betas);
        inherited.fill("/tool_choice", &mut request.tool_choice, self.tool_choice);
        inherited.fill("/permission_mode", &mut request.permission_mode, self.permission_mode);
        inherited.fill("/permissions", &mut request.permissions, self.permissions);
        inherited.fill("/sub_agents", &mut request.sub_agents, self.sub_agents);
        request.context.fill(context, &mut inherited);
        let Limits { rounds, tokens, cost, seconds } = limits;
        inherited.fill("/limits/rounds", &mut request.limits.rounds, rounds);
        inherited.fill("/limits/tokens", &mut request.limits.tokens, tokens);
        inherited.fill("/limits/cost", &mut request.limits.cost, cost);
        inherited.fill("/limits/seconds", &mut request.limits.seconds, seconds);
        let Budget { tokens, cost } = budget;
        inherited.fill("/budget/tokens", &mut request.budget.tokens, tokens);
        inherited.fill("/budget/cost", &mut request.budget.cost, cost);
        inherited
    }
}
