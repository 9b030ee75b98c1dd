//! Tools that run on the model's side, as sessions name them.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use crate::domain::server_tool::ServerTool;
use crate::http::error::{ApiError, FieldError};

/// A tool that runs on the model's side, with options of its own.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct SessionServerTool {
    /// The name: `web_search`, `web_fetch` or `code_execution`, where the operator has it.
    pub(super) name: String,
    /// What its definition has besides: `max_uses`, `allowed_domains`, `blocked_domains`,
    /// `user_location`, `citations`, `max_content_tokens`, each where the tool has it.
    #[schema(value_type = Object)]
    pub(super) options: Map<String, Value>,
}

#[derive(Serialize)]
struct Definition<'a> {
    r#type: &'a str,
    name: &'a str,
    #[serde(flatten)]
    options: &'a Map<String, Value>,
}

impl SessionServerTool {
    /// A tool without options.
    pub(super) fn bare(name: &str) -> Self {
        Self { name: name.to_owned(), options: Map::new() }
    }

    /// What is wrong with its options, of which `tool` has these.
    pub(super) fn problems(&self, tool: &ServerTool, index: usize) -> Vec<FieldError> {
        let mut errors = Vec::new();
        for (name, value) in &self.options {
            let problem = if tool.options().contains(&name.as_str()) {
                option_problem(name, value)
            } else {
                Some("is not an option of this tool")
            };
            if let Some(message) = problem {
                let name = name.replace('~', "~0").replace('/', "~1");
                let pointer = format!("/tools/{index}/options/{name}");
                errors.push(FieldError { pointer, message: message.to_owned() });
            }
        }
        let has = |name: &str| self.options.contains_key(name);
        if has("allowed_domains") && has("blocked_domains") {
            let pointer = format!("/tools/{index}/options/blocked_domains");
            let message = "does not go together with allowed_domains".to_owned();
            errors.push(FieldError { pointer, message });
        }
        errors
    }

    /// The definition as it is pinned and sent.
    pub(super) fn definition(&self, tool: &ServerTool) -> Result<Box<RawValue>, ApiError> {
        let Self { name, options } = self;
        to_raw_value(&Definition { r#type: &tool.r#type, name, options })
            .map_err(|error| ApiError::Internal(error.to_string()))
    }
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
        _ => (!value.is_object()).then_some("is not an object"),
    }
}
