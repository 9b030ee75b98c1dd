//! Events of the service in the form of this protocol.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::json;
use serde_json::value::RawValue;

use super::agent::raw;
use super::session::metadata;
use super::stop_reason::stop_members;
use super::tools::sdk_name;
use crate::domain::event::Frame;
use crate::domain::outcome::{ErrorType, RunError};
use crate::domain::stop_reason::StopReason;

/// The members of an event. Those that do not change are not parsed.
pub(super) type Members = BTreeMap<String, Box<RawValue>>;

/// The types of events that this protocol has, by their types in the service.
const TYPES: [(&str, &str); 18] = [
    ("user.message", "user.message"),
    ("user.interrupt", "user.interrupt"),
    ("user.tool_confirmation", "user.tool_confirmation"),
    ("user.custom_tool_result", "user.custom_tool_result"),
    ("agent.message", "agent.message"),
    ("agent.thinking", "agent.thinking"),
    ("agent.tool_use", "agent.tool_use"),
    ("agent.custom_tool_use", "agent.custom_tool_use"),
    ("agent.tool_result", "agent.tool_result"),
    ("agent.context_compacted", "agent.thread_context_compacted"),
    ("session.thread_created", "session.thread_created"),
    ("session.updated", "session.updated"),
    ("session.status_running", "session.status_running"),
    ("session.status_rescheduled", "session.status_rescheduled"),
    ("session.status_idle", "session.status_idle"),
    ("session.error", "session.error"),
    ("span.model_request_start", "span.model_request_start"),
    ("span.model_request_end", "span.model_request_end"),
];

/// Members of the service's own protocol.
const LEFT_OUT: [&str; 4] = ["seq", "session_id", "run_id", "message_id"];

/// An event in the form of this protocol.
#[derive(Debug)]
pub(super) struct SdkEvent {
    /// The type.
    pub(super) kind: &'static str,
    pub(super) members: Members,
}

/// The types in the service that these types name; all that the protocol has if there are none.
pub(super) fn native_types(named: &[&str]) -> Vec<&'static str> {
    let is_named = |kind: &str| named.is_empty() || named.contains(&kind);
    TYPES.iter().filter(|(_, kind)| is_named(kind)).map(|(native, _)| *native).collect()
}

/// The event of a frame; none for types that the protocol does not have.
pub(super) fn translate(frame: &Frame) -> Option<SdkEvent> {
    let (_, kind) = TYPES.iter().find(|(native, _)| *native == frame.kind)?;
    let mut members: Members = serde_json::from_slice(&frame.json()).ok()?;
    for name in LEFT_OUT {
        members.remove(name);
    }
    if let Some(time) = members.remove("created_at") {
        members.insert("processed_at".to_owned(), time);
    }
    match *kind {
        "agent.tool_use" => {
            let name: String = read(&members, "name")?;
            members.insert("name".to_owned(), raw(&sdk_name(&name)));
        }
        "agent.thread_context_compacted" => {
            members.insert("type".to_owned(), raw(kind));
        }
        "session.thread_created" => {
            members.insert("workflow_run_id".to_owned(), raw(&()));
        }
        "session.updated" => {
            members.retain(|name, _| {
                ["type", "id", "processed_at", "title", "metadata"].contains(&name.as_str())
            });
            if !members.contains_key("title") && !members.contains_key("metadata") {
                return None;
            }
            if let Some(own) = members.get("metadata") {
                let shown = raw(&metadata(own.get()));
                members.insert("metadata".to_owned(), shown);
            }
        }
        "session.status_idle" => {
            let (reason, details) = stop_members(read::<StopReason>(&members, "stop_reason")?);
            members.insert("stop_reason".to_owned(), raw(&reason));
            members.insert("stop_details".to_owned(), raw(&details));
        }
        "session.error" => {
            let error = error(read::<RunError>(&members, "error")?);
            members.insert("error".to_owned(), error);
        }
        _ => {}
    }
    Some(SdkEvent { kind, members })
}

/// A member of an event.
pub(super) fn read<T: DeserializeOwned>(members: &Members, name: &str) -> Option<T> {
    serde_json::from_str(members.get(name)?.get()).ok()
}

/// The error of a run that has ended: it is not retried.
fn error(RunError { r#type, message, .. }: RunError) -> Box<RawValue> {
    let kind = match r#type {
        ErrorType::ModelOverloadedError => "model_overloaded_error",
        ErrorType::ModelRateLimitedError => "model_rate_limited_error",
        ErrorType::ModelRequestFailedError => "model_request_failed_error",
        ErrorType::BillingError => "billing_error",
        ErrorType::BudgetExceeded | ErrorType::CrashLoop | ErrorType::InternalError => {
            "unknown_error"
        }
    };
    raw(&json!({ "type": kind, "message": message, "retry_status": { "type": "exhausted" } }))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::domain::event::{EventBody, NewEvent, Stamp};
    use crate::domain::permission::Permission;
    use crate::domain::stop_reason::Refusal;

    fn translated(body: &EventBody) -> Option<Value> {
        let stamp = Stamp {
            session_id: uuid::Uuid::from_u128(1).into(),
            run_id: Some(uuid::Uuid::from_u128(2).into()),
            seq: 7,
            created_at: "2026-11-21T20:00:00Z".parse().unwrap(),
        };
        let event = NewEvent::with_id("evt_1".into(), body);
        let frame = Frame::encode(event.id, event.kind.into(), &event.body, &stamp);
        translate(&frame).map(|event| serde_json::to_value(event.members).unwrap())
    }

    #[test]
    fn every_type_is_one_of_the_service() {
        for (native, _) in TYPES {
            assert!(EventBody::KINDS.contains(&native), "{native}");
        }
        assert_eq!(native_types(&[]).len(), TYPES.len());
        let named = ["agent.thread_context_compacted", "workflow_run.created"];
        assert_eq!(native_types(&named), ["agent.context_compacted"]);
    }

    #[test]
    fn a_call_has_the_name_of_the_toolset_and_its_exact_input() {
        let input = RawValue::from_string(r#"{"n":1.50}"#.to_owned()).unwrap();
        let body = EventBody::AgentToolUse {
            name: "Bash".to_owned(),
            input,
            evaluated_permission: Permission::Ask,
            message_id: Some("msg_1".to_owned()),
        };
        let event = translated(&body).unwrap();
        let expected = json!({
            "type": "agent.tool_use", "id": "evt_1", "processed_at": "2026-11-21T20:00:00.000000Z",
            "name": "bash", "input": { "n": 1.5 }, "evaluated_permission": "ask",
        });
        assert_eq!(event, expected);
    }

    #[test]
    fn an_end_that_the_protocol_does_not_know_is_the_end_of_a_turn() {
        let idle = |stop_reason| {
            let (limited, output_error) = (None, None);
            let event = translated(&EventBody::StatusIdle { stop_reason, limited, output_error });
            let event = event.unwrap();
            (event["stop_reason"].clone(), event["stop_details"].clone())
        };
        let ended = json!({ "type": "end_turn", "reason": "max_tokens" });
        assert_eq!(idle(StopReason::MaxTokens), (ended, Value::Null));
        assert_eq!(idle(StopReason::EndTurn), (json!({ "type": "end_turn" }), Value::Null));
        let event_ids = vec!["toolu_1".to_owned()];
        let waits = json!({ "type": "requires_action", "event_ids": ["toolu_1"] });
        assert_eq!(idle(StopReason::RequiresAction { event_ids }), (waits, Value::Null));
        let details = json!({ "type": "refusal", "category": null, "explanation": null });
        let refusal = json!({ "type": "refusal" });
        assert_eq!(idle(StopReason::Refusal(Refusal::default())), (refusal, details));
    }

    #[test]
    fn an_error_says_that_it_is_not_retried() {
        let error = RunError::new(ErrorType::CrashLoop, "Seven crashes.");
        let event = translated(&EventBody::Error { error }).unwrap();
        assert_eq!(
            event["error"],
            json!({ "type": "unknown_error", "message": "Seven crashes.",
                    "retry_status": { "type": "exhausted" } })
        );
    }

    #[test]
    fn a_change_without_title_and_metadata_is_left_out() {
        let changed = |title, metadata| EventBody::Updated {
            title,
            metadata,
            permission_mode: None,
            model: None,
            effort: None,
            thinking: None,
            archived: Some(true),
            sent_history: None,
        };
        assert_eq!(translated(&changed(None, None)).map(|_| ()), None);
        let metadata = RawValue::from_string(r#"{"a":"b","n":1}"#.to_owned()).unwrap();
        let event = translated(&changed(Some(None), Some(metadata))).unwrap();
        assert_eq!(event["metadata"], json!({ "a": "b", "n": "1" }));
        assert_eq!((&event["title"], event.get("archived")), (&Value::Null, None));
        assert!(translated(&EventBody::Todos { todos: Vec::new() }).is_none());
    }
}
