//! The sub-agents of a new session.

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::domain::run::Limits;
use crate::domain::session::Settings;
use crate::domain::sub_agent::{GENERAL, Share, SubAgent, TASK, is_for_sub_agents};
use crate::http::error::{ApiError, FieldError};
use crate::http::routes::session_checks::limit_errors;
use crate::http::state::Api;

/// The largest number of them.
const MOST: usize = 16;
/// Characters of what the model is told of one.
const MAX_DESCRIPTION: usize = 1000;

/// A sub-agent that the model may start with the tool `Task`. What it does not say is as in the
/// session; it never has more than the session has.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct SessionSubAgent {
    /// The name by which the model asks for it: 1 to 64 of `a-z`, `0-9`, `_` and `-`. `general` takes
    /// the place of the one that every session has.
    #[schema(pattern = "^[a-z0-9_-]{1,64}$")]
    name: String,
    /// What the model is told of it: what it is good for. 1,000 characters at most.
    #[schema(min_length = 1, max_length = 1000)]
    description: String,
    /// Its system prompt; when absent, one that tells it to do its task and to answer once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    system: Option<String>,
    /// Its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 200)]
    model: Option<String>,
    /// The output budget of one of its requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 128_000)]
    max_tokens: Option<u32>,
    /// Its tools, of those that the session has; all of them when absent. It never has `Task`,
    /// `ExitPlanMode` and the tools that the client runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<String>>,
    /// The limits of its run. It has no more of tokens, cost and time than its parent has left.
    #[serde(default, skip_serializing_if = "Limits::is_open")]
    limits: Limits,
}

impl From<SubAgent> for SessionSubAgent {
    fn from(agent: SubAgent) -> Self {
        let SubAgent { name, description, system, model, price: _, max_tokens, tools, limits } =
            agent;
        Self { name, description, system, model, max_tokens, tools, limits }
    }
}

/// Pins the sub-agents that a session names, and tells its model of them.
pub(in crate::http) fn pin(
    api: &Api,
    wanted: Vec<SessionSubAgent>,
    settings: &mut Settings,
) -> Result<(), ApiError> {
    let names = settings.tool_names();
    let has_task = names.iter().any(|name| name == TASK)
        && !settings.client_tools.iter().any(|name| name == TASK);
    if !has_task {
        return if wanted.is_empty() {
            Ok(())
        } else {
            Err(ApiError::field("/sub_agents", format!("needs the tool {TASK} among the tools")))
        };
    }
    if wanted.len() > MOST {
        return Err(ApiError::field("/sub_agents", format!("names more than {MOST}")));
    }
    let mut errors = Vec::new();
    for (index, agent) in wanted.iter().enumerate() {
        let is_repeated = wanted.iter().take(index).any(|earlier| earlier.name == agent.name);
        let repeated = is_repeated.then(|| ("/name".to_owned(), "is there twice".to_owned()));
        let problems = agent.problems(&names, settings).into_iter().chain(repeated);
        errors.extend(problems.map(|(member, message)| FieldError {
            pointer: format!("/sub_agents/{index}{member}"),
            message,
        }));
    }
    if !errors.is_empty() {
        return Err(ApiError::Validation(errors));
    }
    settings.sub_agents = wanted.into_iter().map(|agent| agent.priced(api)).collect();
    let (rules, cost) = (&api.defaults.model_rules, settings.limits.cost.or(settings.budget.cost));
    for (index, agent) in settings.sub_agents.iter().enumerate() {
        let child = settings.for_sub_agent(agent, Share::default()).map_err(unwritable)?;
        let pointer = |member: &str| format!("/sub_agents/{index}{member}");
        if child.price.is_none() && cost.or(agent.limits.cost).is_some() {
            let message = format!("has no price, and cost is limited: {}", child.model);
            errors.push(FieldError { pointer: pointer("/model"), message });
        }
        errors.extend(
            rules.problems(&child).into_iter().map(|error| FieldError {
                pointer: pointer(&error.pointer),
                message: error.message,
            }),
        );
    }
    if !errors.is_empty() {
        return Err(ApiError::Validation(errors));
    }
    settings.tools = told(settings).map_err(unwritable)?;
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err takes")]
fn unwritable(error: serde_json::Error) -> ApiError {
    ApiError::Internal(error.to_string())
}

impl SessionSubAgent {
    /// What is wrong with it, and with which member.
    fn problems(&self, tools: &[String], settings: &Settings) -> Vec<(String, String)> {
        let mut problems = Vec::new();
        let mut refuse = |is_wrong: bool, member: &str, message: &str| {
            if is_wrong {
                problems.push((member.to_owned(), message.to_owned()));
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
        refuse(has_nul, "", "has a NUL");
        for (index, name) in self.tools.iter().flatten().enumerate() {
            let is_theirs = is_for_sub_agents(name) && !settings.client_tools.contains(name);
            let member = format!("/tools/{index}");
            refuse(!tools.contains(name), &member, "is not a tool of the session");
            refuse(!is_theirs, &member, "is not a tool that sub-agents may have");
        }
        let limits = limit_errors(&self.limits, "/limits");
        problems.extend(limits.into_iter().map(|error| (error.pointer, error.message)));
        problems
    }

    fn priced(self, api: &Api) -> SubAgent {
        let Self { name, description, system, model, max_tokens, tools, limits } = self;
        let price = model.as_ref().and_then(|model| api.defaults.prices.get(model).copied());
        SubAgent { name, description, system, model, price, max_tokens, tools, limits }
    }
}

/// The definitions of a session's tools, in which that of the tool says which sub-agents there are.
fn told(settings: &Settings) -> serde_json::Result<Box<RawValue>> {
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
