//! The requests that the model has received.

use std::collections::HashMap;
use std::fmt::Display;

use serde_json::Value;
use simulator::{RecordedRequest, Running};

use super::TestApp;

/// The requests to the model in the order of their arrival.
pub(crate) struct Upstream {
    pub(crate) requests: Vec<RecordedRequest>,
}

impl Upstream {
    pub(crate) fn of(simulator: &Running) -> Self {
        let mut requests = simulator.requests();
        requests.retain(|request| request.path != "/v1/models?limit=1000");
        Self { requests }
    }

    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    /// The body of one request.
    pub(crate) fn body(&self, index: usize) -> Value {
        serde_json::from_slice(&self.requests[index].body).unwrap()
    }

    /// The text of one request.
    pub(crate) fn text(&self, index: usize) -> String {
        String::from_utf8(self.requests[index].body.to_vec()).unwrap()
    }

    /// The roles of the messages of one request.
    pub(crate) fn roles(&self, index: usize) -> Vec<String> {
        let body = self.body(index);
        items_of(&body).iter().map(|item| item["role"].as_str().unwrap().to_owned()).collect()
    }

    /// Checks that each request of a session is a byte prefix of the next one, up to the end of its
    /// messages. The output budget and the markers of the prompt cache are ignored, because they are
    /// not part of the conversation. Sessions are identified by their first message, which differs in
    /// each session of a test.
    pub(crate) fn assert_prefixes(&self) {
        let mut last: HashMap<String, String> = HashMap::new();
        for request in &self.requests {
            let text = without_marks(std::str::from_utf8(&request.body).unwrap());
            let body: Value = serde_json::from_str(&text).unwrap();
            // The next request does not continue a token count or a summary.
            if request.path.ends_with("/count_tokens") || body.get("compaction").is_some() {
                continue;
            }
            let messages = items_of(&body);
            let newest = messages.last().map(|message| &message["content"]);
            let last_text = newest.and_then(|it| it.as_str().or(it[0]["text"].as_str()));
            if last_text.is_some_and(|text| text.starts_with("Summarize the conversation")) {
                continue;
            }
            // A system prompt among the messages is the same in all sessions.
            let first = messages.iter().find(|message| message["role"] != "system").unwrap();
            let key = format!("{}{first}", body["model"]);
            let text = without_budget(&text, &body["max_tokens"]);
            let text = text.replacen(
                &format!(r#""max_output_tokens":{},"#, body["max_output_tokens"]),
                "",
                1,
            );
            if let Some(before) = last.insert(key, text.clone()) {
                let before = messages_of(&before);
                assert!(
                    text.starts_with(before),
                    "a request is not a continuation of the previous one"
                );
            }
        }
    }
}

/// A body without its output budget, which has this value.
pub(crate) fn without_budget(text: &str, budget: impl Display) -> String {
    text.replacen(&format!(r#","max_tokens":{budget},"#), ",", 1)
}

/// A body without cache breakpoints, which are not content and may move. Inside a text their quotes would
/// be escaped.
pub(crate) fn without_marks(text: &str) -> String {
    text.replace(r#","cache_control":{"type":"ephemeral"}"#, "")
        .replace(r#","cache_control":{"type":"ephemeral","ttl":"1h"}"#, "")
}

/// The messages of a request; of one of Responses, its items.
pub(crate) fn items_of(body: &Value) -> &[Value] {
    let items = body.get("messages").or(body.get("input"));
    items.and_then(Value::as_array).unwrap()
}

/// A body up to the end of its messages.
fn messages_of(text: &str) -> &str {
    let end = text.rfind(r#"],"tool_choice":"#).unwrap_or(text.len() - "]}".len());
    // A text that the user continues grows at its end.
    text[..end].strip_suffix(r#""}"#).unwrap_or(&text[..end])
}

/// Waits until the model has received `times` requests.
pub(crate) async fn asked(app: &TestApp, times: usize) {
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_mins(1);
    while app.upstream().len() < times {
        assert!(tokio::time::Instant::now() < deadline, "the model did not receive the requests");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}
