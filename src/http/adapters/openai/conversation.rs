//! The name of the conversation of a request.

use http::HeaderMap;
use serde_json::Value;

/// The headers that name a conversation, and whether their clients send the whole transcript every time.
/// `X-OpenWebUI-Chat-Id` is what Open WebUI forwards; the configuration of LibreChat sets the others.
const HEADERS: [(&str, bool); 4] = [
    ("x-session-id", false),
    ("x-openwebui-chat-id", true),
    ("x-conversation-id", true),
    ("x-librechat-conversation-id", true),
];

/// The members of `metadata` that name a conversation.
const MEMBERS: [(&str, bool); 2] = [("session_id", false), ("conversation_id", true)];

/// Values of clients whose conversation has no id yet.
const NO_NAMES: [&str; 4] = ["", "new", "null", "undefined"];

/// The name of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConversationName {
    /// The `external_id` of its session, or the session's own id.
    pub(super) id: String,
    /// True if its client sends the whole transcript every time, so that a shorter one than the history
    /// is an edited message or a regenerated answer.
    pub(super) has_transcript: bool,
}

impl ConversationName {
    /// Reads the name; none if the request has none.
    pub(super) fn of(headers: &HeaderMap, metadata: Option<&Value>) -> Option<Self> {
        let of_header = |(name, has_transcript): (&str, bool)| {
            let value = headers.get(name)?.to_str().ok()?;
            Self::new(value, has_transcript)
        };
        let of_member = |(name, has_transcript): (&str, bool)| {
            Self::new(metadata?.get(name)?.as_str()?, has_transcript)
        };
        let mut names = HEADERS.into_iter().filter_map(of_header);
        names.next().or_else(|| MEMBERS.into_iter().find_map(of_member))
    }

    /// The name that a request gives on its own. Its client sends new messages only.
    pub(super) fn given(id: &str) -> Self {
        Self { id: id.to_owned(), has_transcript: false }
    }

    fn new(value: &str, has_transcript: bool) -> Option<Self> {
        let id = value.trim();
        // A placeholder that the client has not replaced.
        let is_name = !NO_NAMES.contains(&id) && !id.starts_with("{{");
        is_name.then(|| Self { id: id.to_owned(), has_transcript })
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use serde_json::json;

    use super::*;

    fn name(headers: &[(&'static str, &'static str)], metadata: &Value) -> Option<String> {
        let header = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        let headers: HeaderMap = headers.iter().map(header).collect();
        ConversationName::of(&headers, Some(metadata)).map(|name| name.id)
    }

    #[test]
    fn a_conversation_has_one_name() {
        let both = [("x-session-id", "a"), ("x-openwebui-chat-id", "b")];
        assert_eq!(name(&both, &json!({})).as_deref(), Some("a"));
        let new = [("x-conversation-id", "new"), ("x-session-id", "{{CHAT}}")];
        assert_eq!(name(&new, &json!({ "session_id": "c" })).as_deref(), Some("c"));
        assert_eq!(name(&[], &json!({ "session_id": 1 })), None);
    }
}
