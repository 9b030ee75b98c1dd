//! The items of the output of a response.

use serde_json::{Value, json};

use super::event::{ResponseEvent, TextDelta};
use crate::domain::event::PreviewKind;
use crate::http::adapters::sent_text::SentText;

/// The prefix of the ids of requests for an approval, before the id of the call.
pub(super) const APPROVAL_PREFIX: &str = "mcpr_";
/// The name of the server of the tools that the service runs.
const SERVER: &str = "twostep";

/// A text or a reasoning that is being streamed.
#[derive(Debug)]
pub(super) struct OpenItem {
    /// The id of the event that completes it.
    pub(super) event_id: String,
    pub(super) is_summary: bool,
    /// The number of a second item for the same event.
    pub(super) copy: Option<u32>,
    /// The position in the output; none while the client has nothing of it.
    pub(super) index: Option<usize>,
    pub(super) text: SentText,
}

impl OpenItem {
    pub(super) fn new(event_id: &str, kind: PreviewKind) -> Self {
        let is_summary = kind == PreviewKind::Thinking;
        let event_id = event_id.to_owned();
        Self { event_id, is_summary, copy: None, index: None, text: SentText::default() }
    }

    fn id(&self) -> String {
        let digits = self.event_id.rsplit_once('_').map_or(&*self.event_id, |(_, digits)| digits);
        let prefix = if self.is_summary { "rs" } else { "msg" };
        match self.copy {
            Some(copy) => format!("{prefix}_{digits}_{copy}"),
            None => format!("{prefix}_{digits}"),
        }
    }

    /// The events at the beginning.
    pub(super) fn begin(&self, index: usize, events: &mut Vec<ResponseEvent>) {
        let mut item = self.item("", "in_progress");
        let parts = if self.is_summary { "summary" } else { "content" };
        if let Some(item) = item.as_object_mut() {
            item.insert(parts.to_owned(), json!([]));
        }
        events.push(ResponseEvent::added(index, &item));
        events.push(self.part_event("added", index, ""));
    }

    pub(super) fn delta(&self, output_index: usize, text: String) -> ResponseEvent {
        let (is_summary, item_id) = (self.is_summary, self.id());
        ResponseEvent::Delta(TextDelta { is_summary, item_id, output_index, text })
    }

    /// The events at the end, and the item.
    pub(super) fn end(
        &self,
        index: usize,
        (text, status): (&str, &str),
        events: &mut Vec<ResponseEvent>,
    ) -> Value {
        let id = self.id();
        events.push(if self.is_summary {
            let members =
                json!({ "item_id": id, "output_index": index, "summary_index": 0, "text": text });
            ResponseEvent::Other("response.reasoning_summary_text.done", members)
        } else {
            let members = json!({ "item_id": id, "output_index": index, "content_index": 0,
                "text": text, "logprobs": [] });
            ResponseEvent::Other("response.output_text.done", members)
        });
        events.push(self.part_event("done", index, text));
        let item = self.item(text, status);
        events.push(ResponseEvent::done(index, &item));
        item
    }

    /// The item with this text.
    pub(super) fn item(&self, text: &str, status: &str) -> Value {
        let (id, part) = (self.id(), self.part(text));
        if self.is_summary {
            return json!({ "id": id, "type": "reasoning", "summary": [part], "status": status });
        }
        json!({ "id": id, "type": "message", "role": "assistant", "status": status,
                "content": [part] })
    }

    fn part(&self, text: &str) -> Value {
        if self.is_summary {
            return json!({ "type": "summary_text", "text": text });
        }
        json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] })
    }

    fn part_event(&self, step: &str, index: usize, text: &str) -> ResponseEvent {
        let (id, part) = (self.id(), self.part(text));
        if self.is_summary {
            let kind = match step {
                "added" => "response.reasoning_summary_part.added",
                _ => "response.reasoning_summary_part.done",
            };
            let members =
                json!({ "item_id": id, "output_index": index, "summary_index": 0, "part": part });
            return ResponseEvent::Other(kind, members);
        }
        let kind = match step {
            "added" => "response.content_part.added",
            _ => "response.content_part.done",
        };
        let members =
            json!({ "item_id": id, "output_index": index, "content_index": 0, "part": part });
        ResponseEvent::Other(kind, members)
    }
}

impl ResponseEvent {
    pub(super) fn added(index: usize, item: &Value) -> Self {
        Self::Other("response.output_item.added", json!({ "output_index": index, "item": item }))
    }

    pub(super) fn done(index: usize, item: &Value) -> Self {
        Self::Other("response.output_item.done", json!({ "output_index": index, "item": item }))
    }
}

/// A call of a tool of the service.
#[derive(Debug)]
pub(super) struct ServerCall {
    pub(super) name: String,
    /// The input as JSON text.
    pub(super) arguments: String,
    /// True if the call needed an approval.
    pub(super) is_asked: bool,
    /// The position in the output; none if it is not part of it yet.
    pub(super) index: Option<usize>,
}

/// The outcome of a call.
#[derive(Debug, Clone, Copy)]
pub(super) enum CallOutcome<'a> {
    Pending,
    Succeeded(&'a str),
    Failed(&'a str),
    /// The call ended without an outcome.
    Abandoned,
}

impl ServerCall {
    /// The call as an item of the protocol for tools that a server runs.
    pub(super) fn item(&self, call_id: &str, outcome: CallOutcome<'_>) -> Value {
        let (status, output, error) = match outcome {
            CallOutcome::Pending => ("in_progress", None, None),
            CallOutcome::Succeeded(text) => ("completed", Some(text), None),
            CallOutcome::Failed(text) => {
                let content = json!([{ "type": "text", "text": text }]);
                let error = json!({ "type": "mcp_tool_execution_error", "content": content });
                ("failed", None, Some(error))
            }
            CallOutcome::Abandoned => ("incomplete", None, None),
        };
        let request_id = self.is_asked.then(|| format!("{APPROVAL_PREFIX}{call_id}"));
        json!({ "id": call_item_id(call_id), "type": "mcp_call", "name": self.name,
                "arguments": self.arguments, "server_label": SERVER, "status": status,
                "output": output, "error": error, "approval_request_id": request_id })
    }

    /// The events at the beginning.
    pub(super) fn begin(&self, call_id: &str, index: usize, events: &mut Vec<ResponseEvent>) {
        let mut item = self.item(call_id, CallOutcome::Pending);
        if let Some(item) = item.as_object_mut() {
            item.insert("arguments".to_owned(), json!(""));
        }
        let id = call_item_id(call_id);
        let members = json!({ "item_id": id, "output_index": index });
        let arguments = &self.arguments;
        let delta = json!({ "item_id": id, "output_index": index, "delta": arguments });
        let done = json!({ "item_id": id, "output_index": index, "arguments": arguments });
        events.extend([
            ResponseEvent::added(index, &item),
            ResponseEvent::Other("response.mcp_call.in_progress", members),
            ResponseEvent::Other("response.mcp_call_arguments.delta", delta),
            ResponseEvent::Other("response.mcp_call_arguments.done", done),
        ]);
    }

    /// The events at the end, and the item.
    pub(super) fn end(
        &self,
        call_id: &str,
        index: usize,
        outcome: CallOutcome<'_>,
        events: &mut Vec<ResponseEvent>,
    ) -> Value {
        let item = self.item(call_id, outcome);
        let members = json!({ "item_id": call_item_id(call_id), "output_index": index });
        match outcome {
            CallOutcome::Succeeded(_) => {
                events.push(ResponseEvent::Other("response.mcp_call.completed", members));
            }
            CallOutcome::Failed(_) => {
                events.push(ResponseEvent::Other("response.mcp_call.failed", members));
            }
            CallOutcome::Pending | CallOutcome::Abandoned => {}
        }
        events.push(ResponseEvent::done(index, &item));
        item
    }

    /// The request for an approval of the call.
    pub(super) fn request(&self, call_id: &str) -> Value {
        json!({ "id": format!("{APPROVAL_PREFIX}{call_id}"), "type": "mcp_approval_request",
                "name": self.name, "arguments": self.arguments, "server_label": SERVER })
    }
}

fn call_item_id(call_id: &str) -> String {
    format!("mcp_{call_id}")
}

/// A call of a tool of the client, with its events.
pub(super) fn client_call(
    call_id: &str,
    name: &str,
    arguments: &str,
    index: usize,
    events: &mut Vec<ResponseEvent>,
) -> Value {
    let id = format!("fc_{call_id}");
    let item = |status: &str, arguments: &str| {
        json!({ "id": id, "type": "function_call", "status": status, "call_id": call_id,
                "name": name, "arguments": arguments })
    };
    let delta = json!({ "item_id": id, "output_index": index, "delta": arguments });
    let done =
        json!({ "item_id": id, "output_index": index, "name": name, "arguments": arguments });
    let complete = item("completed", arguments);
    events.extend([
        ResponseEvent::added(index, &item("in_progress", "")),
        ResponseEvent::Other("response.function_call_arguments.delta", delta),
        ResponseEvent::Other("response.function_call_arguments.done", done),
        ResponseEvent::done(index, &complete),
    ]);
    complete
}
