//! Tools that clients declare and run themselves, and the tools that a session names.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as JsonError, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::error::{Error, FieldError};
use super::server_tool::SessionServerTool;
use crate::domain::storable::storable_json;
use crate::tools::check_definition;

/// The largest number of tools that one request may declare.
const MAX_TOOLS: usize = 64;
const MAX_DESCRIPTION: usize = 10_000;
const MAX_SCHEMA: usize = 32 * 1024;

/// A tool that the client runs. The run waits until the client has sent the results of its calls.
#[derive(Debug, Clone, Deserialize, Serialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClientTool {
    /// The name: 1 to 64 of `a-z`, `A-Z`, `0-9`, `_` and `-`.
    #[schema(pattern = "^[A-Za-z0-9_-]{1,64}$")]
    pub(crate) name: String,
    /// A description for the model; at most 10000 characters.
    #[schema(max_length = 10_000)]
    description: Option<String>,
    /// The JSON Schema of the input, which is an object; at most 32 kB.
    #[schema(value_type = Object)]
    input_schema: Value,
    /// `true`.
    client: bool,
    /// `true`: the model's server compiles the schema into a grammar, so that the input of each call is
    /// valid. The schema must be one that it can compile.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    strict: bool,
}

/// A tool of the service with a description of the session's own, or a strict one.
#[derive(Debug, Clone, Deserialize, Serialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DescribedTool {
    /// The name of the tool.
    pub(crate) name: String,
    /// The description that the model reads in place of the tool's own; 1 to 10000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 10_000)]
    pub(crate) description: Option<String>,
    /// `true`: the model's server compiles the schema of the tool into a grammar.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) strict: bool,
}

/// A tool of a session: a tool of the service or of the model provider by its name, a tool of the
/// service with another description, a tool of the model provider with options, or a tool of the
/// client by its definition.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(untagged)]
pub(crate) enum SessionTool {
    /// The name of a tool of the service or of the model provider.
    Name(String),
    /// A tool of the service with another description.
    Described(DescribedTool),
    /// A tool of the model provider.
    Server(SessionServerTool),
    /// A tool that the client runs.
    Client(ClientTool),
}

/// The members of all objects that describe tools.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    name: String,
    description: Option<String>,
    input_schema: Option<Value>,
    client: Option<bool>,
    strict: Option<bool>,
    options: Option<Map<String, Value>>,
}

impl Described {
    fn into_tool<E: JsonError>(self) -> Result<SessionTool, E> {
        let Self { name, description, input_schema, client, strict, options } = self;
        if options.is_some() && strict.is_some() {
            return Err(E::custom("a tool of the model provider cannot have `strict`"));
        }
        let is_strict = strict.unwrap_or_default();
        match (options, input_schema, client) {
            (Some(options), None, None) => {
                Ok(SessionTool::Server(SessionServerTool { name, options }))
            }
            (Some(_), ..) => Err(E::custom("only a tool of the model provider has `options`")),
            (None, None, None) => {
                if description.is_none() && strict.is_none() {
                    return Err(E::custom(
                        "has none of `description`, `strict`, `options` and `input_schema`; a tool \
                         of the service or of the model provider is named by a string",
                    ));
                }
                Ok(SessionTool::Described(DescribedTool { name, description, strict: is_strict }))
            }
            (None, None, Some(_)) => Err(E::missing_field("input_schema")),
            (None, Some(_), None) => Err(E::missing_field("client")),
            (None, Some(input_schema), Some(client)) => {
                let strict = is_strict;
                Ok(SessionTool::Client(ClientTool {
                    name,
                    description,
                    input_schema,
                    client,
                    strict,
                }))
            }
        }
    }
}

/// Written by hand, so that errors in a definition name the member.
impl<'de> Deserialize<'de> for SessionTool {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = SessionTool;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a tool, or an object that describes one")
            }

            fn visit_str<E: JsonError>(self, name: &str) -> Result<SessionTool, E> {
                Ok(SessionTool::Name(name.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SessionTool, A::Error> {
                Described::deserialize(MapAccessDeserializer::new(map))?.into_tool()
            }
        }

        deserializer.deserialize_any(Either)
    }
}

/// The problem with a description that the model reads.
fn description_problem(description: &str) -> Option<String> {
    if description.chars().count() > MAX_DESCRIPTION {
        return Some(format!("is longer than {MAX_DESCRIPTION} characters"));
    }
    description.contains('\0').then(|| "has a NUL".to_owned())
}

impl DescribedTool {
    /// The problem with its description.
    pub(crate) fn problem(&self) -> Option<String> {
        let description = self.description.as_deref()?;
        if description.trim().is_empty() {
            return Some("is blank".to_owned());
        }
        description_problem(description)
    }
}

#[derive(Serialize)]
struct Definition<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    input_schema: &'a Value,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    strict: bool,
}

impl ClientTool {
    /// A tool with this definition, which is not checked yet.
    pub(crate) fn new(name: String, description: Option<String>, input_schema: Value) -> Self {
        Self { name, description, input_schema, client: true, strict: false }
    }

    /// The first wrong member, and the reason.
    fn problem(&self) -> Option<(&'static str, String)> {
        if !self.client {
            return Some(("client", "must be true: only the client can run this tool".to_owned()));
        }
        let description = self.description.as_deref().unwrap_or_default();
        if let Some(problem) = description_problem(description) {
            return Some(("description", problem));
        }
        let schema = self.input_schema.to_string();
        if schema.len() > MAX_SCHEMA {
            return Some(("input_schema", format!("is larger than {MAX_SCHEMA} bytes")));
        }
        if storable_json(&schema) != schema {
            return Some(("input_schema", "has a NUL".to_owned()));
        }
        let error = check_definition(&self.name, &self.input_schema).err()?;
        let member = if error.is_name() { "name" } else { "input_schema" };
        Some((member, error.to_string()))
    }
}

/// The errors in declared tools, next to tools of these names. The indexes are those among all tools
/// of the request.
pub(crate) fn problems<'a>(
    tools: impl Iterator<Item = (usize, &'a ClientTool)>,
    other_tools: &[String],
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut names: Vec<&str> = other_tools.iter().map(String::as_str).collect();
    for (count, (index, tool)) in tools.enumerate() {
        let mut refuse = |member: &str, message: String| {
            errors.push(FieldError::new(format!("/tools/{index}{member}"), message));
        };
        if count >= MAX_TOOLS {
            refuse("", format!("is one too many: at most {MAX_TOOLS} tools may be declared"));
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

/// The definitions as the model receives them, in a JSON array.
pub(crate) fn definitions<'a>(
    tools: impl Iterator<Item = &'a ClientTool>,
) -> Result<Box<RawValue>, Error> {
    let definitions: Vec<Definition<'_>> = tools
        .map(|ClientTool { name, description, input_schema, strict, .. }| Definition {
            name,
            description: description.as_deref().filter(|text| !text.is_empty()),
            input_schema,
            strict: *strict,
        })
        .collect();
    to_raw_value(&definitions).map_err(Error::internal)
}

/// Joins two JSON arrays.
pub(crate) fn joined(first: &RawValue, more: &RawValue) -> Result<Box<RawValue>, Error> {
    let array = |raw: &RawValue| serde_json::from_str::<Vec<Box<RawValue>>>(raw.get());
    let all = array(first).and_then(|mut all| {
        all.extend(array(more)?);
        to_raw_value(&all)
    });
    all.map_err(Error::internal)
}
