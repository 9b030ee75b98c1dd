//! Events: numbered facts of a session, and the one encoding that all readers share.

use std::fmt::Write as _;

use bytes::Bytes;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

use super::ids::{EventId, RunId, SessionId};
use super::message::Content;
use super::run::{LimitKind, RunError, StopReason, Usage};

/// What happened. The `type` on the wire is also the SSE event name.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(tag = "type")]
pub enum EventBody {
    /// The client's message was accepted. The event's id is the message's id.
    #[serde(rename = "user.message")]
    UserMessage {
        /// The message's blocks.
        #[schema(value_type = Vec<Object>)]
        content: Content,
    },
    /// The client asked for the run to be cancelled.
    #[serde(rename = "user.interrupt")]
    UserInterrupt {},
    /// The model said something to the reader.
    #[serde(rename = "agent.message")]
    AgentMessage {
        /// Text blocks.
        #[schema(value_type = Vec<Object>)]
        content: Content,
    },
    /// The model thought; the text is a summary and may be empty.
    #[serde(rename = "agent.thinking")]
    AgentThinking {
        /// Text blocks.
        #[schema(value_type = Vec<Object>)]
        content: Content,
    },
    /// The model asks for a tool. The event's id is the model's `tool_use` id.
    #[serde(rename = "agent.tool_use")]
    AgentToolUse {
        /// The tool's name.
        name: String,
        /// The input as the model wrote it.
        #[schema(value_type = Object)]
        input: Box<RawValue>,
        /// What the permission policy said.
        evaluated_permission: Permission,
    },
    /// A tool answered, or could not.
    #[serde(rename = "agent.tool_result")]
    AgentToolResult {
        /// The call that it answers.
        tool_use_id: String,
        /// Text blocks.
        #[schema(value_type = Vec<Object>)]
        content: Content,
        /// Whether the tool failed.
        is_error: bool,
        /// How long the call took; 0 for a call that never ran.
        duration_ms: i64,
    },
    /// A worker took the run up.
    #[serde(rename = "session.status_running")]
    StatusRunning {
        /// How many times a worker has taken this run up, this one included.
        attempt: i32,
    },
    /// The model could not answer; it will be asked again.
    #[serde(rename = "session.status_rescheduled")]
    StatusRescheduled {
        /// How many requests have failed in a row.
        attempt: u32,
        /// When it will be asked again.
        #[schema(value_type = String, format = DateTime)]
        retry_at: Timestamp,
    },
    /// The run came to rest: the last event of a run.
    #[serde(rename = "session.status_idle")]
    StatusIdle {
        /// Why.
        stop_reason: StopReason,
        /// The limit at which the model was asked for a final answer.
        #[serde(skip_serializing_if = "Option::is_none")]
        limited: Option<LimitKind>,
    },
    /// Something failed.
    #[serde(rename = "session.error")]
    Error {
        /// What, for programs and for people.
        error: RunError,
    },
    /// The tokens of the run so far.
    #[serde(rename = "session.usage")]
    Usage {
        /// Sums over all requests of the run.
        usage: Usage,
    },
    /// A request to the model begins.
    #[serde(rename = "span.model_request_start")]
    ModelRequestStart {
        /// The model's name.
        model: String,
    },
    /// A request to the model ended.
    #[serde(rename = "span.model_request_end")]
    ModelRequestEnd {
        /// The event of its beginning.
        #[schema(value_type = String)]
        model_request_start_id: EventId,
        /// What it cost.
        model_usage: Usage,
        /// Why the model stopped, in its own word.
        #[serde(skip_serializing_if = "Option::is_none")]
        stop_reason: Option<String>,
        /// Whether it failed.
        is_error: bool,
        /// From sending to the last byte.
        duration_ms: i64,
    },
}

/// What the permission policy says of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// It may run.
    Allow,
}

impl EventBody {
    /// The type on the wire.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::UserMessage { .. } => "user.message",
            Self::UserInterrupt {} => "user.interrupt",
            Self::AgentMessage { .. } => "agent.message",
            Self::AgentThinking { .. } => "agent.thinking",
            Self::AgentToolUse { .. } => "agent.tool_use",
            Self::AgentToolResult { .. } => "agent.tool_result",
            Self::StatusRunning { .. } => "session.status_running",
            Self::StatusRescheduled { .. } => "session.status_rescheduled",
            Self::StatusIdle { .. } => STATUS_IDLE,
            Self::Error { .. } => "session.error",
            Self::Usage { .. } => "session.usage",
            Self::ModelRequestStart { .. } => "span.model_request_start",
            Self::ModelRequestEnd { .. } => "span.model_request_end",
        }
    }
}

/// The type of the event that ends a run.
pub const STATUS_IDLE: &str = "session.status_idle";

/// An event before the database has numbered it.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// The id, which previews of the event carry too.
    pub id: String,
    /// The type.
    pub kind: &'static str,
    /// The body as JSON; its first member is the type.
    pub body: String,
}

impl NewEvent {
    /// An event with an id of its own.
    pub fn new(body: &EventBody) -> Self {
        Self::with_id(EventId::new().to_string(), body)
    }

    /// An event that carries the id of the thing it tells of.
    #[expect(
        clippy::expect_used,
        clippy::missing_panics_doc,
        reason = "strings, numbers and raw JSON always serialize"
    )]
    pub fn with_id(id: String, body: &EventBody) -> Self {
        let json = serde_json::to_string(body).expect("an event body serializes");
        // Raw JSON may hold line ends between its tokens, and an SSE frame is one line of data.
        Self {
            id,
            kind: body.kind(),
            body: json.replace(['\n', '\r'], " "),
        }
    }
}

/// The schema of an event on the wire, for the OpenAPI document.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Event {
    /// The event's id, the `tool_use` id for `agent.tool_use`, the message's for `user.message`.
    pub id: String,
    /// The number in the session: from 1, without a gap.
    pub seq: i64,
    /// The session.
    #[schema(value_type = String)]
    pub session_id: SessionId,
    /// The run that the event belongs to.
    #[schema(value_type = Option<String>)]
    pub run_id: Option<RunId>,
    /// When it was stored.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// The type and its fields.
    #[serde(flatten)]
    pub body: EventBody,
}

/// An event as stored, encoded once for all readers: a whole SSE frame with the JSON inside it.
#[derive(Debug, Clone)]
pub struct Frame {
    /// The number in the session.
    pub seq: i64,
    /// The run that the event belongs to.
    pub run_id: Option<RunId>,
    /// The type.
    pub kind: String,
    /// The event's id.
    pub id: String,
    sse: Bytes,
    json_start: usize,
}

/// What the database adds to an event.
#[derive(Debug, Clone)]
pub struct Stamp {
    /// The session.
    pub session_id: SessionId,
    /// The run, if the event belongs to one.
    pub run_id: Option<RunId>,
    /// The number in the session.
    pub seq: i64,
    /// When it was stored.
    pub created_at: Timestamp,
}

const FRAME_END: &str = "\n\n";

impl Frame {
    /// Splices the base fields into the stored body, right after its type.
    pub fn encode(id: String, kind: String, body: &str, stamp: &Stamp) -> Self {
        let Stamp {
            session_id,
            run_id,
            seq,
            created_at,
        } = stamp;
        let mut text = String::with_capacity(body.len() + 2 * id.len() + 3 * kind.len() + 220);
        let _ = write!(text, "id: {seq}\nevent: {kind}\ndata: ");
        let json_start = text.len();
        let type_len = r#"{"type":"""#.len() + kind.len();
        let (head, rest) = body.split_at_checked(type_len).unwrap_or((body, ""));
        let id_json = serde_json::Value::from(id.as_str());
        let _ = write!(
            text,
            r#"{head},"id":{id_json},"seq":{seq},"session_id":"{session_id}""#
        );
        if let Some(run_id) = run_id {
            let _ = write!(text, r#","run_id":"{run_id}""#);
        }
        let _ = write!(text, r#","created_at":"{created_at:.3}"{rest}{FRAME_END}"#);
        Self {
            seq: *seq,
            run_id: *run_id,
            kind,
            id,
            sse: text.into(),
            json_start,
        }
    }

    /// The SSE frame: `id`, `event`, `data` and the blank line.
    pub fn sse(&self) -> Bytes {
        self.sse.clone()
    }

    /// The event's JSON, one line.
    pub fn json(&self) -> Bytes {
        self.sse
            .slice(self.json_start..self.sse.len() - FRAME_END.len())
    }

    /// Whether a run ends with this event.
    pub fn ends_run(&self) -> bool {
        self.kind == STATUS_IDLE
    }
}

/// What is being streamed before its event exists: text, thinking or a tool's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreviewKind {
    /// Becomes `agent.message`.
    Message,
    /// Becomes `agent.thinking`.
    Thinking,
    /// Becomes `agent.tool_use`.
    ToolUse,
}

impl PreviewKind {
    /// The type of the event that will replace the preview.
    pub const fn event_kind(self) -> &'static str {
        match self {
            Self::Message => "agent.message",
            Self::Thinking => "agent.thinking",
            Self::ToolUse => "agent.tool_use",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp() -> Stamp {
        Stamp {
            session_id: uuid::Uuid::from_u128(1).into(),
            run_id: Some(uuid::Uuid::from_u128(2).into()),
            seq: 7,
            created_at: "2026-11-21T20:00:00Z".parse().unwrap(),
        }
    }

    #[test]
    fn a_frame_is_an_sse_event_with_one_line_of_json() {
        let event = NewEvent::with_id(
            "msg_1".into(),
            &EventBody::AgentMessage {
                content: Content::text("two\nlines").unwrap(),
            },
        );
        let frame = Frame::encode(event.id, event.kind.into(), &event.body, &stamp());
        let expected = concat!(
            "id: 7\nevent: agent.message\ndata: ",
            r#"{"type":"agent.message","id":"msg_1","seq":7,"#,
            r#""session_id":"ses_00000000000000000000000000000001","#,
            r#""run_id":"run_00000000000000000000000000000002","#,
            r#""created_at":"2026-11-21T20:00:00.000Z","#,
            r#""content":[{"type":"text","text":"two\nlines"}]}"#,
            "\n\n"
        );
        assert_eq!(std::str::from_utf8(&frame.sse()).unwrap(), expected);
        assert!(frame.json().starts_with(b"{") && frame.json().ends_with(b"}"));
    }

    #[test]
    fn line_ends_in_raw_json_do_not_break_the_frame() {
        let input = RawValue::from_string("{\r\n\"a\": \"b\\n\"\n}".into()).unwrap();
        let name = "f".into();
        let evaluated_permission = Permission::Allow;
        let event = NewEvent::new(&EventBody::AgentToolUse {
            name,
            input,
            evaluated_permission,
        });
        let frame = Frame::encode(event.id, event.kind.into(), &event.body, &stamp());
        let json = frame.json();
        assert!(!json.contains(&b'\n') && !json.contains(&b'\r'));
        let value: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(value["input"]["a"], "b\n");
    }

    #[test]
    fn a_body_without_fields_is_still_an_object() {
        let event = NewEvent::new(&EventBody::UserInterrupt {});
        let frame = Frame::encode(event.id, event.kind.into(), &event.body, &stamp());
        let value: serde_json::Value = serde_json::from_slice(&frame.json()).unwrap();
        assert_eq!(value["type"], "user.interrupt");
        assert_eq!(value["seq"], 7);
    }
}
