//! The capabilities of models, as the server lists them: `GET /v1/models`.

use serde_json::Value;
use tokio::time::timeout;

use super::client::Client;
use crate::domain::model::{Capabilities, Effort, Known, ThinkingKind};

/// The page size, the maximum that the server supports.
const PAGE: &str = "1000";
/// The maximum number of pages that are read.
const MAX_PAGES: usize = 10;
/// The maximum size of one page, in bytes.
const MAX_BODY: usize = 4 * 1024 * 1024;

/// A failure to read the list of models.
#[derive(Debug, thiserror::Error)]
pub enum ModelListError {
    /// The server is unreachable, or the connection broke.
    #[error("the request for the server's list of models failed")]
    Http(#[from] reqwest::Error),
    /// The request timed out.
    #[error("the request for the server's list of models timed out")]
    Silent,
    /// The server has no such list or denies access to it.
    #[error("the server answered the request for its list of models with status {0}")]
    Status(u16),
    /// The response is not a list of models.
    #[error("the server's list of models cannot be read: {0}")]
    Unreadable(String),
}

impl Client {
    /// Returns the capabilities of all models that the server lists.
    pub async fn models(&self) -> Result<Known, ModelListError> {
        let mut known = Known::new();
        let mut after = None;
        for _ in 0..MAX_PAGES {
            let page = timeout(self.messages.idle_timeout(), self.page(after.as_deref()))
                .await
                .map_err(|_| ModelListError::Silent)??;
            let entries = page.get("data").and_then(Value::as_array);
            let entries = entries
                .ok_or_else(|| ModelListError::Unreadable("it has no member `data`".into()))?;
            known.extend(entries.iter().filter_map(entry));
            let has_more = page.get("has_more").and_then(Value::as_bool).unwrap_or_default();
            after = page.get("last_id").and_then(Value::as_str).map(str::to_owned);
            if !has_more || after.is_none() {
                break;
            }
        }
        Ok(known)
    }

    async fn page(&self, after: Option<&str>) -> Result<Value, ModelListError> {
        let mut url = self.messages.sibling_url("models");
        url.query_pairs_mut().append_pair("limit", PAGE);
        if let Some(after) = after {
            url.query_pairs_mut().append_pair("after_id", after);
        }
        let sent = self.messages.get(url).send().await.map_err(reqwest::Error::without_url)?;
        if !sent.status().is_success() {
            return Err(ModelListError::Status(sent.status().as_u16()));
        }
        let mut response = sent;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(reqwest::Error::without_url)? {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_BODY {
                return Err(ModelListError::Unreadable("it is too long".to_owned()));
            }
        }
        serde_json::from_slice(&body).map_err(|error| ModelListError::Unreadable(error.to_string()))
    }
}

/// Parses the entry of one model. Capabilities in an unknown format are absent.
fn entry(entry: &Value) -> Option<(String, Capabilities)> {
    let id = entry.get("id")?.as_str()?.to_owned();
    let count = |name: &str| entry.get(name).and_then(Value::as_u64).filter(|count| *count > 0);
    let known = entry.get("capabilities").unwrap_or(&Value::Null);
    let capabilities = Capabilities {
        max_input_tokens: count("max_input_tokens"),
        max_tokens: count("max_tokens").and_then(|count| count.try_into().ok()),
        thinking: known.pointer("/thinking/types").and_then(thinking),
        effort: known.get("effort").and_then(effort),
        structured_outputs: known.get("structured_outputs").and_then(supported),
        image_input: known.get("image_input").and_then(supported),
        pdf_input: known.get("pdf_input").and_then(supported),
        context_management: known.get("context_management").and_then(supported),
        compaction: known.get("compaction").and_then(supported),
        ..Capabilities::default()
    };
    Some((id, capabilities))
}

fn supported(entry: &Value) -> Option<bool> {
    entry.get("supported")?.as_bool()
}

fn thinking(types: &Value) -> Option<Vec<ThinkingKind>> {
    types.as_object()?;
    let takes =
        |kind: &ThinkingKind| types.get(kind.as_str()).and_then(supported).unwrap_or_default();
    Some(ThinkingKind::ALL.into_iter().filter(takes).collect())
}

/// The effort levels, if the server lists them or states that there are none.
fn effort(entry: &Value) -> Option<Vec<Effort>> {
    if supported(entry) == Some(false) {
        return Some(Vec::new());
    }
    let takes = |level: &Effort| entry.get(level.as_str()).and_then(supported);
    let has_levels = Effort::ALL.iter().any(|level| takes(level).is_some());
    has_levels.then(|| Effort::ALL.into_iter().filter(|level| takes(level) == Some(true)).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn known_capabilities_of_an_entry_are_read_and_others_ignored() {
        let yes = json!({ "supported": true });
        let no = json!({ "supported": false });
        let whole = json!({
            "id": "m", "max_input_tokens": 1000, "max_tokens": 0,
            "capabilities": {
                "thinking": { "types": { "adaptive": yes, "enabled": no, "dreaming": yes } },
                "effort": { "supported": true, "low": yes, "max": no },
                "structured_outputs": no,
                "image_input": yes,
                "pdf_input": true,
            },
        });
        let expected = Capabilities {
            max_input_tokens: Some(1000),
            thinking: Some(vec![ThinkingKind::Adaptive]),
            effort: Some(vec![Effort::Low]),
            structured_outputs: Some(false),
            image_input: Some(true),
            ..Capabilities::default()
        };
        assert_eq!(entry(&whole), Some(("m".to_owned(), expected)));
        let bare = json!({ "id": "local", "object": "model" });
        assert_eq!(entry(&bare), Some(("local".to_owned(), Capabilities::default())));
        assert_eq!(entry(&json!({ "name": "m" })), None);
        assert_eq!(effort(&json!({ "supported": true })), None);
        assert_eq!(effort(&no), Some(Vec::new()));
    }
}
