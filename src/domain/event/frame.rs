//! The encoding of an event, shared by all readers.

use std::fmt::Write as _;

use bytes::Bytes;
use jiff::Timestamp;

use super::STATUS_IDLE;
use crate::domain::ids::{RunId, SessionId};

/// An event as stored, encoded once for all readers: a whole SSE frame with the JSON inside it.
#[derive(Debug, Clone)]
pub struct Frame {
    /// The sequence number in the session.
    pub seq: i64,
    /// The run that the event belongs to.
    pub run_id: Option<RunId>,
    /// The type.
    pub kind: String,
    /// The event's id.
    pub id: String,
    /// True if a run waits for the client from this event on.
    pub awaits_client: bool,
    sse: Bytes,
    json_start: usize,
}

/// The fields that the database adds to an event.
#[derive(Debug, Clone)]
pub struct Stamp {
    /// The session.
    pub session_id: SessionId,
    /// The run, if the event belongs to one.
    pub run_id: Option<RunId>,
    /// The sequence number in the session.
    pub seq: i64,
    /// Time of storage.
    pub created_at: Timestamp,
}

/// The beginning of the body of an event after which a run waits for the client.
const AWAITS_CLIENT: &str =
    r#"{"type":"session.status_idle","stop_reason":{"type":"requires_action""#;
const FRAME_END: &str = "\n\n";

impl Frame {
    /// Inserts the base fields into the stored body, directly after its type.
    pub fn encode(id: String, kind: String, body: &str, stamp: &Stamp) -> Self {
        let Stamp { session_id, run_id, seq, created_at } = stamp;
        let mut text = String::with_capacity(body.len() + 2 * id.len() + 3 * kind.len() + 220);
        let _ = write!(text, "id: {seq}\nevent: {kind}\ndata: ");
        let json_start = text.len();
        let type_len = r#"{"type":"""#.len() + kind.len();
        let (head, rest) = body.split_at_checked(type_len).unwrap_or((body, ""));
        let id_json = serde_json::Value::from(id.as_str());
        let _ = write!(text, r#"{head},"id":{id_json},"seq":{seq},"session_id":"{session_id}""#);
        if let Some(run_id) = run_id {
            let _ = write!(text, r#","run_id":"{run_id}""#);
        }
        let _ = write!(text, r#","created_at":"{created_at:.6}"{rest}{FRAME_END}"#);
        let awaits_client = kind == STATUS_IDLE && body.starts_with(AWAITS_CLIENT);
        Self { seq: *seq, run_id: *run_id, kind, id, awaits_client, sse: text.into(), json_start }
    }

    /// The SSE frame: `id`, `event`, `data` and the blank line.
    pub fn sse(&self) -> Bytes {
        self.sse.clone()
    }

    /// The event's JSON, on one line.
    pub fn json(&self) -> Bytes {
        self.sse.slice(self.json_start..self.sse.len() - FRAME_END.len())
    }

    /// Returns `true` if this event ends a run.
    pub fn ends_run(&self) -> bool {
        self.kind == STATUS_IDLE
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::domain::event::{EventBody, NewEvent};
    use crate::domain::message::Content;
    use crate::domain::permission::Permission;

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
                interrupted: false,
                message_id: None,
            },
        );
        let frame = Frame::encode(event.id, event.kind.into(), &event.body, &stamp());
        let expected = concat!(
            "id: 7\nevent: agent.message\ndata: ",
            r#"{"type":"agent.message","id":"msg_1","seq":7,"#,
            r#""session_id":"ses_00000000000000000000000000000001","#,
            r#""run_id":"run_00000000000000000000000000000002","#,
            r#""created_at":"2026-11-21T20:00:00.000000Z","#,
            r#""content":[{"type":"text","text":"two\nlines"}]}"#,
            "\n\n"
        );
        assert_eq!(std::str::from_utf8(&frame.sse()).unwrap(), expected);
        assert!(frame.json().starts_with(b"{") && frame.json().ends_with(b"}"));
    }

    #[test]
    fn line_breaks_in_raw_json_do_not_break_the_frame() {
        let input = RawValue::from_string("{\r\n\"a\": \"b\\n\"\n}".into()).unwrap();
        let name = "f".into();
        let evaluated_permission = Permission::Allow;
        let event = NewEvent::new(&EventBody::AgentToolUse {
            name,
            input,
            evaluated_permission,
            message_id: None,
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
