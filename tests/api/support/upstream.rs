//! What the model was sent.

use std::collections::HashMap;

use bytes::Bytes;
use serde_json::Value;
use twostep::simulator::{RecordedRequest, Running};

use super::TestApp;

/// The requests to the model, in the order in which they came.
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
        let messages = body["messages"].as_array().unwrap();
        messages.iter().map(|message| message["role"].as_str().unwrap().to_owned()).collect()
    }

    /// Each request of a session is a byte prefix of the next, up to the end of its messages, but
    /// for the output budget, which is no part of the conversation.
    /// Sessions are told apart by their first message, which tests make different.
    pub(crate) fn assert_prefixes(&self) {
        let mut last: HashMap<String, Bytes> = HashMap::new();
        for request in &self.requests {
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            let key = format!("{}{}", body["model"], body["messages"][0]);
            let text = without_budget(&request.body, &body["max_tokens"]);
            if let Some(before) = last.insert(key, text.clone()) {
                let before = messages_of(&before);
                assert!(text.starts_with(before), "a request changed what was sent before");
            }
        }
    }
}

fn without_budget(body: &Bytes, budget: &Value) -> Bytes {
    let text = std::str::from_utf8(body).unwrap();
    text.replacen(&format!(r#","max_tokens":{budget},"#), ",", 1).into()
}

/// A body up to the end of its messages.
fn messages_of(body: &Bytes) -> &[u8] {
    let text = std::str::from_utf8(body).unwrap();
    let end = text.rfind(r#"],"tool_choice":"#).unwrap_or(text.len() - "]}".len());
    &body[..end]
}

/// Waits until the model has been asked so many times.
pub(crate) async fn asked(app: &TestApp, times: usize) {
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    while app.upstream().len() < times {
        assert!(tokio::time::Instant::now() < deadline, "the model was not asked");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}
