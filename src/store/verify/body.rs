//! What an event tells.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::parts::{Hash, Told, hash, hash_of_line};
use crate::domain::run::StopReason;
use crate::domain::usage::Usage;

/// What an event tells, as far as it can be compared.
#[derive(Debug)]
pub(super) enum Body {
    UserMessage(Hash),
    Told(Told),
    ToolResult {
        tool_use_id: String,
        hash: Hash,
        is_error: bool,
    },
    RequestEnd {
        usage: Usage,
        is_error: bool,
    },
    /// The run came to rest; it goes on if somebody must act.
    Idle {
        goes_on: bool,
    },
    Other,
    Unreadable(String),
}

impl Body {
    /// Reads what is stored. The type is in the body, too.
    pub(super) fn read(kind: &str, id: &str, body: &str) -> Self {
        #[derive(Deserialize)]
        struct Type {
            r#type: String,
        }
        match serde_json::from_str::<Type>(body) {
            Err(error) => return Self::Unreadable(error.to_string()),
            Ok(named) if named.r#type != kind => {
                return Self::Unreadable(format!("its body is of the type {}", named.r#type));
            }
            Ok(_) => {}
        }
        let read = match kind {
            "user.message" => said(body).map(|said| Self::UserMessage(hash_of_line(said.get()))),
            "agent.message" => {
                said(body).map(|said| Self::Told(Told::Message(hash_of_line(said.get()))))
            }
            "agent.thinking" => thought(body).map(Self::Told),
            "agent.tool_use" | "agent.custom_tool_use" => asked(id, body).map(Self::Told),
            "agent.tool_result" | "user.custom_tool_result" => answered(body),
            "span.model_request_end" => request_end(body),
            "session.status_idle" => idle(body),
            _ => Ok(Self::Other),
        };
        read.unwrap_or_else(|error| Self::Unreadable(error.to_string()))
    }
}

fn said(body: &str) -> Result<Box<RawValue>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Said {
        content: Box<RawValue>,
    }
    Ok(serde_json::from_str::<Said>(body)?.content)
}

#[derive(Deserialize)]
struct Text {
    text: String,
}

fn thought(body: &str) -> Result<Told, serde_json::Error> {
    let texts: Vec<Text> = serde_json::from_str(said(body)?.get())?;
    Ok(Told::thinking(texts.iter().map(|block| block.text.as_str())))
}

fn asked(id: &str, body: &str) -> Result<Told, serde_json::Error> {
    #[derive(Deserialize)]
    struct Asked {
        name: String,
        input: Box<RawValue>,
    }
    let Asked { name, input } = serde_json::from_str(body)?;
    Ok(Told::tool_use(id, &name, &input))
}

fn answered(body: &str) -> Result<Body, serde_json::Error> {
    #[derive(Deserialize)]
    struct Answered {
        #[serde(alias = "custom_tool_use_id")]
        tool_use_id: String,
        content: Vec<Text>,
        is_error: bool,
    }
    let Answered { tool_use_id, content, is_error } = serde_json::from_str(body)?;
    let text: String = content.into_iter().map(|block| block.text).collect();
    Ok(Body::ToolResult { tool_use_id, hash: hash(&text), is_error })
}

fn idle(body: &str) -> Result<Body, serde_json::Error> {
    #[derive(Deserialize)]
    struct Idle {
        stop_reason: StopReason,
    }
    let Idle { stop_reason } = serde_json::from_str(body)?;
    Ok(Body::Idle { goes_on: matches!(stop_reason, StopReason::RequiresAction { .. }) })
}

fn request_end(body: &str) -> Result<Body, serde_json::Error> {
    #[derive(Deserialize)]
    struct End {
        model_usage: Usage,
        is_error: bool,
    }
    let End { model_usage: usage, is_error } = serde_json::from_str(body)?;
    Ok(Body::RequestEnd { usage, is_error })
}
