//! What the model was sent.

use std::collections::HashMap;

use bytes::Bytes;
use serde_json::Value;
use twostep::simulator::{RecordedRequest, Running};

/// The requests to the model, in the order in which they came.
pub(crate) struct Upstream {
    pub(crate) requests: Vec<RecordedRequest>,
}

impl Upstream {
    pub(crate) fn of(simulator: &Running) -> Self {
        Self { requests: simulator.requests() }
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
        let messages = body["messages"].as_array().unwrap();
        messages.iter().map(|message| message["role"].as_str().unwrap().to_owned()).collect()
    }

    /// Each request of a session is a byte prefix of the next, up to the end of its messages.
    /// Sessions are told apart by their first message, which tests make different.
    pub(crate) fn assert_prefixes(&self) {
        let mut last: HashMap<String, Bytes> = HashMap::new();
        for request in &self.requests {
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            let messages = body["messages"].as_array().unwrap();
            // A system prompt that stands among the messages is that of all sessions.
            let first = messages.iter().find(|message| message["role"] != "system").unwrap();
            let key = format!("{}{first}", body["model"]);
            if let Some(before) = last.insert(key, request.body.clone()) {
                let before = messages_of(&before);
                assert!(request.body.starts_with(before), "a request changed what was sent before");
            }
        }
    }
}

/// A body up to the end of its messages.
fn messages_of(body: &Bytes) -> &[u8] {
    let text = std::str::from_utf8(body).unwrap();
    let end = text.rfind(r#"],"tool_choice":"#).unwrap_or(text.len() - "]}".len());
    // A text that the user goes on with grows at its end.
    body[..end].strip_suffix(br#""}"#).unwrap_or(&body[..end])
}
