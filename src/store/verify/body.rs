//! The content of an event.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::parts::{Hash, Output, hash, hash_of_line};
use crate::domain::stop_reason::StopReason;
use crate::domain::usage::Usage;

/// The comparable part of an event's content.
#[derive(Debug)]
pub(super) enum Body {
    UserMessage(Hash),
    Output(Output),
    ToolResult {
        tool_use_id: String,
        hash: Hash,
        is_error: bool,
    },
    RequestEnd {
        usage: Usage,
        is_error: bool,
    },
    /// The run settled, or waits for a decision or result.
    Idle {
        continues: bool,
    },
    Other,
    Unreadable(String),
}

impl Body {
    /// Parses a stored body, which contains its type.
    pub(super) fn read(kind: &str, id: &str, body: &str) -> Self {
        #[derive(Deserialize)]
        struct Type {
            r#type: String,
        }
        match serde_json::from_str::<Type>(body) {
            Err(error) => return Self::Unreadable(error.to_string()),
            Ok(named) if named.r#type != kind => {
                return Self::Unreadable(format!("the type in the body is {}", named.r#type));
            }
            Ok(_) => {}
        }
        let read = match kind {
            "user.message" => {
                read_content(body).map(|content| Self::UserMessage(hash_of_line(content.get())))
            }
            "agent.message" => read_content(body)
                .map(|content| Self::Output(Output::Message(hash_of_line(content.get())))),
            "agent.thinking" => thinking(body).map(Self::Output),
            "agent.tool_use" | "agent.custom_tool_use" => tool_use(id, body).map(Self::Output),
            "agent.tool_result" | "user.custom_tool_result" => tool_result(body),
            "span.model_request_end" => request_end(body),
            "session.status_idle" => idle(body),
            _ => Ok(Self::Other),
        };
        read.unwrap_or_else(|error| Self::Unreadable(error.to_string()))
    }
}

fn read_content(body: &str) -> Result<Box<RawValue>, serde_json::Error> {
    #[derive(Deserialize)]
    struct WithContent {
        content: Box<RawValue>,
    }
    Ok(serde_json::from_str::<WithContent>(body)?.content)
}

#[derive(Deserialize)]
struct Text {
    text: String,
}

fn thinking(body: &str) -> Result<Output, serde_json::Error> {
    let texts: Vec<Text> = serde_json::from_str(read_content(body)?.get())?;
    Ok(Output::thinking(texts.iter().map(|block| block.text.as_str())))
}

fn tool_use(id: &str, body: &str) -> Result<Output, serde_json::Error> {
    #[derive(Deserialize)]
    struct ToolUse {
        name: String,
        input: Box<RawValue>,
    }
    let ToolUse { name, input } = serde_json::from_str(body)?;
    Ok(Output::tool_use(id, &name, &input))
}

fn tool_result(body: &str) -> Result<Body, serde_json::Error> {
    #[derive(Deserialize)]
    struct ToolResultEvent {
        #[serde(alias = "custom_tool_use_id")]
        tool_use_id: String,
        content: Vec<Text>,
        is_error: bool,
    }
    let ToolResultEvent { tool_use_id, content, is_error } = serde_json::from_str(body)?;
    let text: String = content.into_iter().map(|block| block.text).collect();
    Ok(Body::ToolResult { tool_use_id, hash: hash(&text), is_error })
}

fn idle(body: &str) -> Result<Body, serde_json::Error> {
    #[derive(Deserialize)]
    struct Idle {
        stop_reason: StopReason,
    }
    let Idle { stop_reason } = serde_json::from_str(body)?;
    Ok(Body::Idle { continues: matches!(stop_reason, StopReason::RequiresAction { .. }) })
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
