//! The sub-agents that the model of a new session may start.

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::members::limit_errors;
use crate::domain::deferred_tools::TOOL_SEARCH;
use crate::domain::limits::Limits;
use crate::domain::session::Settings;
use crate::domain::sub_agent::{GENERAL, Share, SubAgent, TASK, is_for_sub_agents};
use crate::service::error::{Error, FieldError};
use crate::service::state::Service;

/// Maximum number of sub-agents of a session.
const MAX_SUB_AGENTS: usize = 16;
/// Maximum length of a description, in characters.
const MAX_DESCRIPTION: usize = 1000;

/// A sub-agent that the model may start with the tool `Task`. Absent members are inherited from the
/// session. A sub-agent never has more tools or budget than its session.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionSubAgent {
    /// The name that the model uses to start it: 1 to 64 of `a-z`, `0-9`, `_` and `-`. A sub-agent
    /// named `general` replaces the built-in one.
    #[schema(pattern = "^[a-z0-9_-]{1,64}$")]
    name: String,
    /// A description of its purpose for the model, at most 1,000 characters.
    #[schema(min_length = 1, max_length = 1000)]
    description: String,
    /// Its system prompt. When absent, a default prompt that asks it to complete its task and to
    /// answer once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    system: Option<String>,
    /// The name of its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 200)]
    model: Option<String>,
    /// The maximum number of output tokens of one of its model requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 128_000)]
    max_tokens: Option<u32>,
    /// Its tools, a subset of the session's tools. When absent, all of them except `Task`,
    /// `ExitPlanMode` and the tools that the client executes, which no sub-agent has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<String>>,
    /// The limits of its run. Tokens, cost and time are also limited to the rest of what its
    /// parent's run may use.
    #[serde(default, skip_serializing_if = "Limits::is_open")]
    limits: Limits,
}

impl From<SubAgent> for SessionSubAgent {
    fn from(agent: SubAgent) -> Self {
        let SubAgent { name, description, system, model, max_tokens, tools, limits, .. } = agent;
        Self { name, description, system, model, max_tokens, tools, limits }
    }
}

/// Pins the requested sub-agents, and lists them in the definition of the tool that starts them.
pub(super) fn pin_sub_agents(
    service: &Service,
    requested: Vec<SessionSubAgent>,
    settings: &mut Settings,
) -> Result<(), Error> {
    let tools = settings.tool_names();
    let has_task = tools.iter().any(|name| name == TASK)
        && !settings.client_tools.iter().any(|name| name == TASK);
    if !has_task {
        if requested.is_empty() {
            return Ok(());
        }
        let message = format!("needs the tool {TASK} among the tools");
        return Err(Error::field("/sub_agents", message));
    }
    if requested.len() > MAX_SUB_AGENTS {
        let message = format!("names more than {MAX_SUB_AGENTS}");
        return Err(Error::field("/sub_agents", message));
    }
    let mut errors = Vec::new();
    for (index, agent) in requested.iter().enumerate() {
        errors.extend(agent.problems(&format!("/sub_agents/{index}"), &tools, settings));
        if requested.iter().take(index).any(|earlier| earlier.name == agent.name) {
            let pointer = format!("/sub_agents/{index}/name");
            errors.push(FieldError::new(pointer, "is the name of an earlier sub-agent"));
        }
    }
    if !errors.is_empty() {
        return Err(Error::Validation(errors));
    }
    let pinned = requested
        .into_iter()
        .enumerate()
        .map(|(index, agent)| agent.pinned(service, &format!("/sub_agents/{index}/model")));
    let pinned: Result<_, FieldError> = pinned.collect();
    settings.sub_agents = pinned.map_err(|error| Error::Validation(vec![error]))?;
    check_models(service, settings)?;
    settings.tools = with_sub_agents(settings).map_err(Error::internal)?;
    Ok(())
}

/// Checks each pinned sub-agent as a session of its model.
pub(super) fn check_models(service: &Service, settings: &Settings) -> Result<(), Error> {
    let rules = &service.defaults.model_rules;
    let cost = settings.limits.cost.or(settings.budget.cost);
    let mut errors = Vec::new();
    for (index, agent) in settings.sub_agents.iter().enumerate() {
        let own = settings.for_sub_agent(agent, Share::default()).map_err(Error::internal)?;
        let pointer = |member: &str| format!("/sub_agents/{index}{member}");
        if own.price.is_none() && cost.or(agent.limits.cost).is_some() {
            let message = format!("has no price, but cost is limited: {}", own.model);
            errors.push(FieldError::new(pointer("/model"), message));
        }
        let problems = rules.model_problems(&own).into_iter();
        errors
            .extend(problems.map(|error| FieldError::new(pointer(&error.pointer), error.message)));
    }
    if errors.is_empty() { Ok(()) } else { Err(Error::Validation(errors)) }
}

impl SessionSubAgent {
    /// The members that are not valid, of a sub-agent at this pointer.
    fn problems(&self, pointer: &str, tools: &[String], settings: &Settings) -> Vec<FieldError> {
        let mut problems = Vec::new();
        let mut refuse = |is_wrong: bool, member: &str, message: &str| {
            if is_wrong {
                problems.push(FieldError::new(format!("{pointer}{member}"), message));
            }
        };
        let is_legal =
            |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
        let is_name = (1..=64).contains(&self.name.len()) && self.name.chars().all(is_legal);
        refuse(!is_name, "/name", "is not 1 to 64 of a-z, 0-9, _ and -");
        let characters = self.description.chars().count();
        refuse(self.description.trim().is_empty(), "/description", "is blank");
        refuse(characters > MAX_DESCRIPTION, "/description", "is longer than 1000 characters");
        let is_blank = |text: &Option<String>| text.as_ref().is_some_and(|it| it.trim().is_empty());
        refuse(is_blank(&self.system), "/system", "is blank");
        refuse(is_blank(&self.model), "/model", "is empty");
        let is_long = self.model.as_ref().is_some_and(|model| model.chars().count() > 200);
        refuse(is_long, "/model", "is longer than 200 characters");
        let max_tokens = self.max_tokens.unwrap_or(1);
        refuse(!(1..=128_000).contains(&max_tokens), "/max_tokens", "is not 1 to 128000");
        let has_nul = [&self.system, &self.model, &Some(self.description.clone())]
            .into_iter()
            .any(|text| text.as_ref().is_some_and(|text| text.contains('\0')));
        refuse(has_nul, "", "has a NUL character");
        for (index, name) in self.tools.iter().flatten().enumerate() {
            let is_permitted = is_for_sub_agents(name) && !settings.client_tools.contains(name);
            let member = format!("/tools/{index}");
            refuse(!tools.contains(name), &member, "is not a tool of the session");
            refuse(!is_permitted, &member, "is not a tool that sub-agents may have");
            let is_search = name == TOOL_SEARCH;
            refuse(is_search, &member, "is a tool that each sub-agent with deferred tools has");
        }
        problems.extend(limit_errors(&self.limits, &format!("{pointer}/limits")));
        problems
    }

    fn pinned(self, service: &Service, pointer: &str) -> Result<SubAgent, FieldError> {
        let Self { name, description, system, model, max_tokens, tools, limits } = self;
        let rules = &service.defaults.model_rules;
        let provider = model.as_ref().map(|model| rules.provider_of(model, pointer)).transpose()?;
        let provider = provider.flatten();
        let prices = service.defaults.prices.current();
        let price = model.as_ref().and_then(|model| prices.get(model).copied());
        let located = model.as_ref().map(|model| rules.models.locate(model));
        let tool_search = located.is_some_and(|model| rules.has_tool_search(model));
        let agent = SubAgent {
            name,
            description,
            system,
            model,
            provider,
            price,
            tool_search,
            max_tokens,
            tools,
            limits,
        };
        Ok(agent)
    }
}

/// The tool definitions of a session, with the sub-agents listed in the definition of `Task`.
fn with_sub_agents(settings: &Settings) -> serde_json::Result<Box<RawValue>> {
    let mut agents = settings.sub_agents.clone();
    if !agents.iter().any(|agent| agent.name == GENERAL) {
        agents.insert(0, SubAgent::general());
    }
    let mut definitions: Vec<Box<RawValue>> = serde_json::from_str(settings.tools.get())?;
    for definition in &mut definitions {
        let mut value: Value = serde_json::from_str(definition.get())?;
        if value.get("name").and_then(Value::as_str) != Some(TASK) {
            continue;
        }
        let lines = agents.iter().map(|agent| format!("\n- {}: {}", agent.name, agent.description));
        if let Some(Value::String(text)) = value.get_mut("description") {
            text.push_str("\n\nThe sub-agents:");
            text.extend(lines);
        }
        if let Some(kind) = value.pointer_mut("/input_schema/properties/subagent_type") {
            let names: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
            let description = kind.get("description").cloned().unwrap_or_default();
            *kind = json!({"description": description, "type": "string", "enum": names});
        }
        *definition = to_raw_value(&value)?;
    }
    to_raw_value(&definitions)
}
