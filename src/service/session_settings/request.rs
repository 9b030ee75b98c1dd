//! The request for a new session.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::context::SessionContext;
use super::members::{
    MAX_METADATA, NOT_READABLE, budget_errors, generation_errors, is_readable_object, limit_errors,
    model_problem, title_problem,
};
use super::sub_agents::SessionSubAgent;
use super::system_prompt::SessionSystem;
use crate::domain::agent::AgentChoice;
use crate::domain::budget::Budget;
use crate::domain::generation::Generation;
use crate::domain::ids::EnvironmentId;
use crate::domain::limits::Limits;
use crate::domain::model::Effort;
use crate::domain::model_options::{ModelOptions, ServiceTier};
use crate::domain::name::is_client_name;
use crate::domain::permission::{PermissionMode, Rule};
use crate::domain::session::{Dispatch, InterruptedReplies};
use crate::domain::string_enum::optional_string_enum;
use crate::domain::tool::ToolChoice;
use crate::service::client_tool::SessionTool;
use crate::service::error::{Error, FieldError};
use crate::service::json::{not_null, object, object_lists, some_object};

/// The settings of a new session. All members are optional. After creation only the title, the
/// metadata, the permission mode, the archived state, the model, the effort and the thinking setting
/// can change.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateSession {
    /// The agent to create the session from: `coder` for its newest version, or `coder@3`. The
    /// agent supplies the settings that the request leaves out.
    #[schema(value_type = Option<String>, pattern = "^[a-z0-9][a-z0-9_-]{0,63}(@[1-9][0-9]*)?$")]
    pub(in crate::service) agent: Option<AgentChoice>,
    /// The id of the session in the client's own system: 1 to 255 characters without control
    /// characters, unique in the tenant, kept as long as the session. If a session has it already,
    /// the request creates nothing and returns that session, whatever its settings are. If the request
    /// names another `user` than that session, it fails with 409 `external_id_taken`.
    #[schema(min_length = 1, max_length = 255)]
    pub(in crate::service) external_id: Option<String>,
    /// A title for display, at most 500 characters.
    #[schema(max_length = 500)]
    pub(super) title: Option<String>,
    /// An object that is stored with the session unchanged, at most 16 kB.
    #[schema(value_type = Option<Object>)]
    pub(super) metadata: Option<Box<RawValue>>,
    /// The name of the user, which the tool `get_current_user` returns; 1 to 255 characters without
    /// control characters. When absent, the subject of the token or the name of the API key that
    /// creates the session. A request with a token cannot set it.
    #[schema(min_length = 1, max_length = 255)]
    pub(in crate::service) user: Option<String>,
    /// The name of the model.
    #[schema(min_length = 1, max_length = 200)]
    pub(in crate::service) model: Option<String>,
    /// The models that answer while the model is unavailable, in their order, at most 3. One that
    /// answers also answers the rest of the run.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(value_type = Vec<String>, max_items = 3)]
    pub(in crate::service) fallback_models: Option<Vec<String>>,
    /// The maximum number of output tokens of one model request.
    #[schema(minimum = 1, maximum = 128_000)]
    pub(in crate::service) max_tokens: Option<u32>,
    /// The system prompt: a string or an array of text blocks.
    pub(in crate::service) system: Option<SessionSystem>,
    /// The tools that the model may use. When absent, the operator's selection applies, by default
    /// `read_file`, `write_file`, `list_files` and `get_time`.
    ///
    /// Tools that the client executes are given by their definitions. They follow the other tools,
    /// in the order of the request.
    pub(in crate::service) tools: Option<Vec<SessionTool>>,
    /// The tools whose definitions the model does not see at first: their names, or patterns in which
    /// every `*` matches any characters, such as `mcp__library__*`; at most 200. The model finds them
    /// with the tool `ToolSearch`, which the session then has. Each must match a tool of the session.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(value_type = Vec<String>, max_items = 200)]
    pub(in crate::service) deferred_tools: Option<Vec<String>>,
    /// The executor of tool calls. `auto`: the service executes all tools that the client has not
    /// declared. `client`: the client executes all tools.
    #[serde(default, deserialize_with = "optional_string_enum")]
    pub(super) dispatch: Option<Dispatch>,
    /// The working directory: one that the operator allows, or a directory inside it. When absent,
    /// the operator's directory for all sessions, or else a directory of the session's own.
    pub(super) workspace: Option<String>,
    /// The thinking configuration. It is passed to the model unchanged if the model supports its
    /// `type`.
    #[schema(value_type = Option<Object>)]
    pub(in crate::service) thinking: Option<Box<RawValue>>,
    /// Strings that stop the generation of a reply.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(value_type = Vec<String>)]
    pub(in crate::service) stop_sequences: Option<Vec<String>>,
    /// The treatment of a reply during which the client stops its run. `keep`: the text that was
    /// received becomes a message of the history, marked as interrupted. `discard`: nothing of the
    /// reply is stored. When absent, the operator's default, which is `keep` if none is set.
    #[serde(default, deserialize_with = "optional_string_enum")]
    pub(in crate::service) interrupted_replies: Option<InterruptedReplies>,
    /// True if the model makes a title after the first completed run, unless the session has one. The
    /// request for it is not part of the conversation, but counts as usage. No title is made while a
    /// budget applies. When absent, the operator's default, which is `false` if none is set.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(value_type = bool)]
    pub(in crate::service) generate_title: Option<bool>,
    /// The temperature of sampling: 0 to 1 in the Messages API, 0 to 2 in Chat Completions.
    #[schema(minimum = 0, maximum = 2)]
    pub(in crate::service) temperature: Option<f64>,
    /// The probability mass of nucleus sampling.
    #[schema(minimum = 0, maximum = 1)]
    pub(in crate::service) top_p: Option<f64>,
    /// The number of most likely tokens that are sampled from. Only in the Messages API.
    #[schema(minimum = 1)]
    pub(in crate::service) top_k: Option<u32>,
    /// The seed of sampling. Only in Chat Completions.
    pub(in crate::service) seed: Option<i64>,
    /// Members that are added to the model requests unchanged, at most 16 kB. Members that the
    /// service sends itself are refused.
    #[schema(value_type = Option<Object>)]
    pub(in crate::service) extra_body: Option<Box<RawValue>>,
    /// The effort that the model spends on a reply. When absent, the model's default.
    #[serde(default, deserialize_with = "optional_string_enum")]
    pub(in crate::service) effort: Option<Effort>,
    /// The service tier of model requests.
    #[serde(default, deserialize_with = "optional_string_enum")]
    pub(in crate::service) service_tier: Option<ServiceTier>,
    /// Metadata about the user that is sent with model requests.
    #[serde(default, deserialize_with = "object")]
    pub(super) model_metadata: ModelMetadata,
    /// A JSON Schema for the final answer, at most 32 kB. If the answer matches, it is in the run's
    /// `output`; if not, `output_error` states the reason.
    #[schema(value_type = Option<Object>)]
    pub(in crate::service) output_schema: Option<Box<RawValue>>,
    /// Names of beta features of the model's API, at most 16.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(value_type = Vec<String>, max_items = 16)]
    pub(in crate::service) betas: Option<Vec<String>>,
    /// The tool choice of messages that have none.
    #[serde(default, deserialize_with = "some_object")]
    #[schema(value_type = ToolChoice)]
    pub(in crate::service) tool_choice: Option<ToolChoice>,
    /// Context management: how the conversation is kept within the model's context window.
    #[serde(default, deserialize_with = "object")]
    pub(in crate::service) context: SessionContext,
    /// The limits of runs that specify none.
    #[serde(default, deserialize_with = "object")]
    pub(in crate::service) limits: Limits,
    /// The budget of the session over its whole life. A model request that could exceed the rest of
    /// the budget is not sent, and its run fails with `budget_exceeded`.
    #[serde(default, deserialize_with = "object")]
    pub(in crate::service) budget: Budget,
    /// The decision on calls that no rule matches. When absent, the operator's mode applies, by
    /// default `accept_edits`. `bypass` is accepted only if the operator has enabled it.
    #[serde(default, deserialize_with = "optional_string_enum")]
    pub(in crate::service) permission_mode: Option<PermissionMode>,
    /// Permission rules, at most 200. The first rule that matches a call decides. The operator's
    /// rules are evaluated first.
    #[serde(default, deserialize_with = "object_lists")]
    #[schema(value_type = Vec<Rule>, max_items = 200)]
    pub(in crate::service) permissions: Option<Vec<Rule>>,
    /// The sub-agents that the model may start with the tool `Task`, at most 16, in addition to
    /// `general`.
    #[serde(default, deserialize_with = "object_lists")]
    #[schema(value_type = Vec<SessionSubAgent>, max_items = 16)]
    pub(in crate::service) sub_agents: Option<Vec<SessionSubAgent>>,
    /// The environment that the client named in the protocol of Claude Managed Agents.
    #[serde(skip)]
    pub(super) environment: Option<EnvironmentId>,
}

/// Metadata about the user that is sent with model requests.
#[derive(Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelMetadata {
    /// An opaque id of the user, at most 256 characters. It must not identify a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user_id: Option<String>,
}

impl CreateSession {
    /// Checks the members that need nothing but the request.
    pub(in crate::service) fn check(&self) -> Result<(), Error> {
        let mut errors = Vec::new();
        let mut refuse = |is_wrong: bool, pointer: &str, message: &str| {
            if is_wrong {
                errors.push(FieldError::new(pointer, message));
            }
        };
        let is_unreadable = |raw: &Option<Box<RawValue>>| {
            raw.as_ref().is_some_and(|raw| !is_readable_object(raw.get()))
        };
        let title = self.title.as_deref().and_then(title_problem);
        refuse(title.is_some(), "/title", title.unwrap_or_default());
        let message = "is not 1 to 255 characters without control characters";
        refuse(!self.user.as_deref().is_none_or(is_client_name), "/user", message);
        refuse(!self.external_id.as_deref().is_none_or(is_client_name), "/external_id", message);
        refuse(is_unreadable(&self.metadata), "/metadata", NOT_READABLE);
        let metadata_len = self.metadata.as_ref().map_or(0, |metadata| metadata.get().len());
        refuse(metadata_len > MAX_METADATA, "/metadata", "is larger than 16 kB");
        let model = self.model.as_deref().and_then(model_problem);
        refuse(model.is_some(), "/model", model.unwrap_or_default());
        let max_tokens = self.max_tokens.unwrap_or(1);
        refuse(!(1..=128_000).contains(&max_tokens), "/max_tokens", "is not 1 to 128000");
        refuse(is_unreadable(&self.thinking), "/thinking", NOT_READABLE);
        let has_blank = self.stop_sequences.iter().flatten().any(|text| text.trim().is_empty());
        refuse(has_blank, "/stop_sequences", "has a blank string");
        refuse(is_unreadable(&self.output_schema), "/output_schema", NOT_READABLE);
        errors.extend(generation_errors(&self.generation()));
        errors.extend(limit_errors(&self.limits, "/limits"));
        errors.extend(self.system.iter().flat_map(SessionSystem::problems));
        errors.extend(self.context.problems());
        errors.extend(budget_errors(&self.budget));
        if errors.is_empty() { Ok(()) } else { Err(Error::Validation(errors)) }
    }

    /// The same request for the session with this external id. The request may name the same id.
    pub(crate) fn with_external_id(self, id: &str) -> Result<Self, Error> {
        if self.external_id.as_deref().is_some_and(|own| own != id) {
            return Err(Error::field("/external_id", "is not the id of the conversation"));
        }
        Ok(Self { external_id: Some(id.to_owned()), ..self })
    }

    /// The same request, with an agent and a model that it does not name itself.
    pub(crate) fn with_agent(
        self,
        agent: Option<AgentChoice>,
        model: Option<String>,
    ) -> Result<Self, Error> {
        let message = "is given twice: in the body and in its settings";
        if self.agent.is_some() && agent.is_some() {
            return Err(Error::field("/agent", message));
        }
        if self.model.is_some() && model.is_some() {
            return Err(Error::field("/model", message));
        }
        Ok(Self { agent: self.agent.or(agent), model: self.model.or(model), ..self })
    }

    /// The same request, with a system prompt if it has none.
    #[must_use]
    pub(crate) fn with_default_system(self, system: Option<SessionSystem>) -> Self {
        Self { system: self.system.or(system), ..self }
    }

    /// The same request for a session in this environment.
    #[must_use]
    pub(crate) fn with_environment(self, environment: Option<EnvironmentId>) -> Self {
        Self { environment, ..self }
    }

    /// The parameters of the generation of replies.
    fn generation(&self) -> Generation {
        Generation {
            temperature: self.temperature,
            top_p: self.top_p,
            top_k: self.top_k,
            seed: self.seed,
            extra_body: self.extra_body.clone(),
        }
    }

    /// Moves the options of model requests out of the request.
    pub(super) fn take_model_options(&mut self) -> ModelOptions {
        ModelOptions {
            effort: self.effort,
            service_tier: self.service_tier,
            user_id: self.model_metadata.user_id.take(),
            output_schema: self.output_schema.take(),
            betas: self.betas.take().unwrap_or_default(),
            tool_choice: self.tool_choice.take(),
            generation: self.generation(),
        }
    }
}
