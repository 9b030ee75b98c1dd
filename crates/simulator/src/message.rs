//! A reply of the API, before its encoding as one JSON object or as a stream.

use serde_json::{Map, Value, json};

/// A complete reply.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) id: String,
    pub(crate) model: String,
    pub(crate) content: Vec<Part>,
    pub(crate) stop_reason: String,
    pub(crate) stop_sequence: Option<String>,
    pub(crate) stop_details: Option<Value>,
    pub(crate) usage: Map<String, Value>,
    /// The report on edits of the context, if the request has edits.
    pub(crate) context_management: Option<Value>,
    /// The container in which the API ran code, as the reply reports it.
    pub(crate) container: Option<Value>,
}

/// One content block, with the data that its stream events need.
#[derive(Debug)]
pub(crate) enum Part {
    Text {
        text: String,
        citations: Vec<Value>,
    },
    Thinking {
        thinking: String,
        signature: String,
    },
    Call {
        kind: &'static str,
        id: String,
        name: String,
        input: String,
    },
    /// A summary that the API added on its own.
    Compaction(String),
    Raw(Value),
}

impl Message {
    /// The body of a reply without streaming.
    pub(crate) fn to_json(&self) -> Value {
        let content: Vec<Value> = self.content.iter().map(Part::to_json).collect();
        let message = json!({
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
            "stop_reason": self.stop_reason,
            "stop_sequence": self.stop_sequence,
            "stop_details": self.stop_details,
            "usage": self.usage,
            "container": self.container,
        });
        self.with_report(message)
    }

    /// The reply in `message_start`: no content and almost no output tokens.
    pub(crate) fn opening(&self) -> Value {
        json!({
            "model": self.model,
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "content": [],
            "stop_reason": null,
            "stop_sequence": null,
            "stop_details": null,
            "usage": self.opening_usage(),
            "container": null,
        })
    }

    /// If the reply starts with a summary, the first input counts are those of the summary.
    fn opening_usage(&self) -> Map<String, Value> {
        let mut usage = self.usage.clone();
        usage.shift_remove("output_tokens_details");
        let iterations = usage.shift_remove("iterations").unwrap_or_default();
        let says_nothing = iterations.is_array() && usage.get("output_tokens") == Some(&json!(0));
        usage.insert("output_tokens".to_owned(), json!(u8::from(!says_nothing)));
        if let Some([Value::Object(first), _, ..]) = iterations.as_array().map(Vec::as_slice) {
            let input = first.iter().filter(|(field, _)| field.ends_with("input_tokens"));
            usage.extend(input.map(|(field, count)| (field.clone(), count.clone())));
        }
        usage
    }

    /// Adds the report on edits to the reply, or to the last event of its stream.
    pub(crate) fn with_report(&self, mut value: Value) -> Value {
        if let (Some(report), Value::Object(fields)) = (&self.context_management, &mut value) {
            fields.insert("context_management".to_owned(), report.clone());
        }
        value
    }

    /// The usage in `message_delta`: the counts that were not known at the start.
    pub(crate) fn closing_usage(&self) -> Map<String, Value> {
        let only_at_the_start = ["cache_creation", "service_tier", "inference_geo"];
        let mut usage = self.usage.clone();
        usage.retain(|field, _| !only_at_the_start.contains(&field.as_str()));
        usage
    }
}

impl Part {
    pub(crate) fn to_json(&self) -> Value {
        match self {
            Self::Text { text, citations } if citations.is_empty() => {
                json!({ "type": "text", "text": text })
            }
            Self::Text { text, citations } => {
                json!({ "type": "text", "text": text, "citations": citations })
            }
            Self::Thinking { thinking, signature } => {
                json!({ "type": "thinking", "thinking": thinking, "signature": signature })
            }
            Self::Call { kind, id, name, input } => {
                // Only a stream can carry an input that is not JSON.
                let input: Value = serde_json::from_str(input).unwrap_or_else(|_| json!({}));
                call(kind, id, name, &input)
            }
            Self::Compaction(summary) => json!({ "type": "compaction", "content": summary }),
            Self::Raw(block) => block.clone(),
        }
    }

    /// The block in `content_block_start`.
    pub(crate) fn opening(&self) -> Value {
        match self {
            Self::Text { citations, .. } if citations.is_empty() => {
                json!({ "type": "text", "text": "" })
            }
            Self::Text { .. } => json!({ "type": "text", "text": "", "citations": [] }),
            Self::Thinking { .. } => {
                json!({ "type": "thinking", "thinking": "", "signature": "" })
            }
            Self::Call { kind, id, name, .. } => call(kind, id, name, &json!({})),
            Self::Compaction(_) => json!({ "type": "compaction", "content": null }),
            Self::Raw(block) => block.clone(),
        }
    }

    /// Size of the block in bytes, for the output count.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Text { text, .. } | Self::Compaction(text) => text.len(),
            Self::Thinking { thinking, .. } => thinking.len(),
            Self::Call { name, input, .. } => name.len() + input.len(),
            Self::Raw(block) => block.to_string().len(),
        }
    }
}

fn call(kind: &str, id: &str, name: &str, input: &Value) -> Value {
    let caller = json!({ "type": "direct" });
    json!({ "type": kind, "id": id, "name": name, "input": input, "caller": caller })
}
