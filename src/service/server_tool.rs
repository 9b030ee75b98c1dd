//! Tools that the model provider runs, as sessions name them.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::error::{Error, FieldError};
use super::json::escape;
use crate::domain::server_tool::ServerTool;

/// A tool that the model provider runs, with options.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub(crate) struct SessionServerTool {
    /// The name: `web_search`, `web_fetch` or `code_execution`, if the operator enables it.
    pub(crate) name: String,
    /// Options of the tool: `max_uses`, `allowed_domains`, `blocked_domains`, `user_location`,
    /// `citations`, `max_content_tokens`, as far as the tool has them.
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

impl SessionServerTool {
    /// A tool without options.
    pub(crate) fn bare(name: &str) -> Self {
        Self { name: name.to_owned(), options: Map::new() }
    }

    /// The errors in its options.
    pub(crate) fn problems(&self, tool: &ServerTool, index: usize) -> Vec<FieldError> {
        let mut errors = Vec::new();
        for (name, value) in &self.options {
            let problem = if tool.options().contains(&name.as_str()) {
                option_problem(name, value)
            } else {
                Some("is not an option of this tool")
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

    /// The definition as it is pinned and sent to the model.
    pub(crate) fn definition(&self, tool: &ServerTool) -> Result<Box<RawValue>, Error> {
        let Self { name, options } = self;
        to_raw_value(&Definition { r#type: &tool.r#type, name, options }).map_err(Error::internal)
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
