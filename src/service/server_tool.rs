//! Tools that the model provider runs, as sessions name them.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::error::{Error, FieldError};
use super::json::escape;
use crate::domain::model::Capabilities;
use crate::domain::platform::Platform;
use crate::domain::server_tool::{CALLERS, ServerTool};

/// A tool that the model provider runs, with options.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub(crate) struct SessionServerTool {
    /// The name: `web_search`, `web_fetch` or `code_execution`, if the operator enables it.
    pub(crate) name: String,
    /// Options of the tool: `max_uses`, `allowed_domains`, `blocked_domains`, `user_location`,
    /// `citations`, `max_content_tokens`, `allowed_callers`, as far as the tool has them.
    #[schema(value_type = Object)]
    pub(crate) options: Map<String, Value>,
}

#[derive(Serialize)]
struct Definition<'a> {
    r#type: &'a str,
    name: &'a str,
    #[serde(flatten)]
    options: &'a Map<String, Value>,
}

/// The reason why the cloud of a model's server refuses the pinned tools of a session, if it does.
pub(crate) fn refusal_by(platform: Option<Platform>, pinned: &RawValue) -> Option<String> {
    let definitions: Vec<&RawValue> = serde_json::from_str(pinned.get()).ok()?;
    let server_tools = definitions.into_iter().filter_map(SessionServerTool::pinned);
    let reason = server_tools.into_iter().find_map(|tool| unavailable_on(platform, &tool.name))?;
    Some(format!("contains a tool that the model cannot have: {reason}"))
}

/// The reason why the cloud of a model's server does not run a server tool.
pub(crate) fn unavailable_on(platform: Option<Platform>, tool: &str) -> Option<String> {
    let platform = platform.filter(|platform| !platform.runs(tool))?;
    Some(format!("{tool} is not available on {}", platform.title()))
}

impl SessionServerTool {
    /// A tool without options.
    pub(crate) fn bare(name: &str) -> Self {
        Self { name: name.to_owned(), options: Map::new() }
    }

    /// The tool with this pinned definition; none if it is not one of the model provider.
    pub(crate) fn pinned(definition: &RawValue) -> Option<Self> {
        let mut options: Map<String, Value> = serde_json::from_str(definition.get()).ok()?;
        options.shift_remove("type")?;
        let name = options.shift_remove("name")?.as_str()?.to_owned();
        Some(Self { name, options })
    }

    /// The errors in its options, for a model with these capabilities.
    pub(crate) fn problems(
        &self,
        tool: &ServerTool,
        index: usize,
        model: &Capabilities,
    ) -> Vec<FieldError> {
        let mut errors = Vec::new();
        for (name, value) in &self.options {
            let problem = if !tool.options().contains(&name.as_str()) {
                Some("is not an option of this tool")
            } else if name == "allowed_callers" && is_called_from_code(value) && !filters(model) {
                Some("is not supported by the model, which cannot call tools from code")
            } else {
                option_problem(name, value)
            };
            if let Some(message) = problem {
                let pointer = format!("/tools/{index}/options/{}", escape(name));
                errors.push(FieldError::new(pointer, message));
            }
        }
        let has = |name: &str| self.options.contains_key(name);
        if has("allowed_domains") && has("blocked_domains") {
            let pointer = format!("/tools/{index}/options/blocked_domains");
            errors.push(FieldError::new(pointer, "is not allowed together with allowed_domains"));
        }
        errors
    }

    /// The definition as it is pinned and sent to a model with these capabilities.
    pub(crate) fn definition(
        &self,
        tool: &ServerTool,
        model: &Capabilities,
    ) -> Result<Box<RawValue>, Error> {
        let Self { name, options } = self;
        let mut options = Cow::Borrowed(options);
        if tool.needs_direct_caller(model) && !options.contains_key("allowed_callers") {
            options.to_mut().insert("allowed_callers".to_owned(), json!(["direct"]));
        }
        let definition = Definition { r#type: tool.type_for(model), name, options: &options };
        to_raw_value(&definition).map_err(Error::internal)
    }
}

/// Returns false if the model is known not to call tools from code.
fn filters(model: &Capabilities) -> bool {
    model.dynamic_filtering != Some(false)
}

fn is_called_from_code(callers: &Value) -> bool {
    callers.as_array().is_some_and(|callers| callers.iter().any(|caller| caller != "direct"))
}

fn option_problem(name: &str, value: &Value) -> Option<&'static str> {
    let is_domain = |value: &Value| value.as_str().is_some_and(|domain| !domain.is_empty());
    match name {
        "max_uses" | "max_content_tokens" => {
            value.as_u64().is_none_or(|number| number == 0).then_some("is not a number from 1")
        }
        "allowed_domains" | "blocked_domains" => {
            let domains = value.as_array().filter(|domains| !domains.is_empty());
            let fits = domains.is_some_and(|domains| domains.iter().all(is_domain));
            (!fits).then_some("is not a list of domains")
        }
        "allowed_callers" => {
            let callers = value.as_array().filter(|callers| !callers.is_empty());
            let is_caller =
                |caller: &Value| caller.as_str().is_some_and(|caller| CALLERS.contains(&caller));
            let fits = callers.is_some_and(|callers| callers.iter().all(is_caller));
            (!fits).then_some(
                "is not a list of direct, code_execution_20250825 and code_execution_20260120",
            )
        }
        _ => (!value.is_object()).then_some("is not an object"),
    }
}
