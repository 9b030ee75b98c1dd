//! Tools that clients declare and run themselves.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::server_tool::SessionServerTool;
use crate::http::error::{ApiError, FieldError};
use crate::tools::check_definition;

/// Tools that one body may declare.
const MAX_TOOLS: usize = 64;
const MAX_DESCRIPTION: usize = 10_000;
const MAX_SCHEMA: usize = 32 * 1024;

/// A tool that the client runs: the model's calls of it are handed to the client, and the run
/// waits for their results.
#[derive(Debug, Clone, Deserialize, Serialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct ClientTool {
    /// The name that the model uses: 1 to 64 of `a-z`, `A-Z`, `0-9`, `_` and `-`.
    #[schema(pattern = "^[A-Za-z0-9_-]{1,64}$")]
    pub(super) name: String,
    /// When to use it, for the model; at most 10000 characters.
    #[schema(max_length = 10_000)]
    description: Option<String>,
    /// The JSON Schema of its input, an object; at most 32 kB.
    #[schema(value_type = Object)]
    input_schema: Value,
    /// `true`.
    client: bool,
}

/// A tool of the service or of the model's side by its name, one of the model's side with options,
/// or one of the client's by its definition.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(untagged)]
pub(in crate::http) enum SessionTool {
    /// The name of a tool of the service or of the model's side.
    Name(String),
    /// A tool on the model's side.
    Server(SessionServerTool),
    /// A tool that the client runs.
    Client(ClientTool),
}

/// The members of the objects that stand for tools, of which each has its own.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    name: String,
    description: Option<String>,
    input_schema: Option<Value>,
    client: Option<bool>,
    options: Option<Map<String, Value>>,
}

impl Described {
    fn into_tool<E: Error>(self) -> Result<SessionTool, E> {
        let Self { name, description, input_schema, client, options } = self;
        match (options, input_schema, client) {
            (Some(options), None, None) => {
                Ok(SessionTool::Server(SessionServerTool { name, options }))
            }
            (Some(_), ..) => Err(E::custom("only a tool on the model's side has `options`")),
            (None, None, _) => Err(E::missing_field("input_schema")),
            (None, Some(_), None) => Err(E::missing_field("client")),
            (None, Some(input_schema), Some(client)) => {
                Ok(SessionTool::Client(ClientTool { name, description, input_schema, client }))
            }
        }
    }
}

/// By hand, so that a wrong member of a definition is pointed at.
impl<'de> Deserialize<'de> for SessionTool {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = SessionTool;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a tool, or an object that describes one")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<SessionTool, E> {
                Ok(SessionTool::Name(name.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SessionTool, A::Error> {
                Described::deserialize(MapAccessDeserializer::new(map))?.into_tool()
            }
        }

        deserializer.deserialize_any(Either)
    }
}

#[derive(Serialize)]
struct Definition<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    input_schema: &'a Value,
}

impl ClientTool {
    /// What is wrong with it, and where.
    fn problem(&self) -> Option<(&'static str, String)> {
        if !self.client {
            return Some(("client", "is not true: only the client can run this tool".to_owned()));
        }
        let description = self.description.as_deref().unwrap_or_default();
        if description.chars().count() > MAX_DESCRIPTION {
            return Some(("description", format!("is longer than {MAX_DESCRIPTION} characters")));
        }
        if description.contains('\0') {
            return Some(("description", "has a NUL".to_owned()));
        }
        if self.input_schema.to_string().len() > MAX_SCHEMA {
            return Some(("input_schema", format!("is larger than {MAX_SCHEMA} bytes")));
        }
        let error = check_definition(&self.name, &self.input_schema).err()?;
        let place = if error.is_name() { "name" } else { "input_schema" };
        Some((place, error.to_string()))
    }
}

/// What is wrong with declared tools, next to tools of these names. The places are those among
/// all tools of the body.
pub(super) fn problems<'a>(
    tools: impl Iterator<Item = (usize, &'a ClientTool)>,
    beside: &[String],
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut names: Vec<&str> = beside.iter().map(String::as_str).collect();
    for (count, (index, tool)) in tools.enumerate() {
        let mut refuse = |member: &str, message: String| {
            errors.push(FieldError { pointer: format!("/tools/{index}{member}"), message });
        };
        if count >= MAX_TOOLS {
            refuse("", format!("is one more than the {MAX_TOOLS} that may be declared"));
            break;
        }
        if let Some((member, message)) = tool.problem() {
            refuse(&format!("/{member}"), message);
        } else if names.contains(&tool.name.as_str()) {
            refuse("/name", format!("is the name of another tool: {}", tool.name));
        }
        names.push(&tool.name);
    }
    errors
}

/// The definitions as the model sees them, an array.
pub(super) fn definitions<'a>(
    tools: impl Iterator<Item = &'a ClientTool>,
) -> Result<Box<RawValue>, ApiError> {
    let definitions: Vec<Definition<'_>> = tools
        .map(|ClientTool { name, description, input_schema, .. }| Definition {
            name,
            description: description.as_deref().filter(|text| !text.is_empty()),
            input_schema,
        })
        .collect();
    to_raw_value(&definitions).map_err(|error| ApiError::Internal(error.to_string()))
}

/// One array of two.
pub(super) fn joined(first: &RawValue, more: &RawValue) -> Result<Box<RawValue>, ApiError> {
    let array = |raw: &RawValue| serde_json::from_str::<Vec<Box<RawValue>>>(raw.get());
    let all = array(first).and_then(|mut all| {
        all.extend(array(more)?);
        to_raw_value(&all)
    });
    all.map_err(|error| ApiError::Internal(error.to_string()))
}
