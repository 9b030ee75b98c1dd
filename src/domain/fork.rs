//! Forks: sessions that continue from a message of another session.

use serde::{Deserialize, Serialize};
use serde_json::value::to_raw_value;

use super::call_end::{FORKED_BEFORE_RUNNING, FORKED_WHILE_RUNNING};
use super::ids::SessionId;
use super::message::{BadContent, Content};
use super::tool::CallState;

/// The point at which a fork leaves its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct ForkedFrom {
    /// The source session.
    #[schema(value_type = String)]
    pub session_id: SessionId,
    /// The number of the last shared message; 0 if no message is shared.
    pub message_seq: i32,
}

/// A client's reference to a message of a history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged, expecting = "the number or the id of a message is expected")]
pub enum MessageName {
    /// Its number, from 1.
    Seq(i64),
    /// Its id; if several messages have the id, the last one.
    Id(String),
}

/// A call that the fork copied from its source without a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCall {
    /// The model's id of the call.
    pub tool_use_id: String,
    /// The state of the call in the source.
    pub state: CallState,
}

/// Builds the message that answers such calls, in their order; without it the model would refuse
/// the history.
///
/// The results in the source after the fork point are not part of the fork. The model is therefore
/// informed that each call may have run, except calls that certainly did not start.
pub fn closing(calls: &[OpenCall]) -> Result<Content, BadContent> {
    #[derive(Serialize)]
    struct ToolResult<'a> {
        r#type: &'static str,
        tool_use_id: &'a str,
        content: &'static str,
        is_error: bool,
    }
    let blocks = calls
        .iter()
        .map(|call| {
            let content = match call.state {
                CallState::Planned | CallState::Denied => FORKED_BEFORE_RUNNING,
                CallState::Started
                | CallState::Done
                | CallState::Failed
                | CallState::Interrupted => FORKED_WHILE_RUNNING,
            };
            let (r#type, tool_use_id) = ("tool_result", call.tool_use_id.as_str());
            to_raw_value(&ToolResult { r#type, tool_use_id, content, is_error: true })
        })
        .collect::<Result<Vec<_>, _>>()?;
    Content::from_blocks(blocks.iter().map(AsRef::as_ref))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_call_that_did_not_start_is_reported_as_cancelled() {
        let call = |tool_use_id: &str, state| OpenCall { tool_use_id: tool_use_id.into(), state };
        let content = closing(&[call("b", CallState::Done), call("a", CallState::Planned)]);
        let expected = format!(
            r#"[{{"type":"tool_result","tool_use_id":"b","content":"{FORKED_WHILE_RUNNING}","is_error":true}},{{"type":"tool_result","tool_use_id":"a","content":"{FORKED_BEFORE_RUNNING}","is_error":true}}]"#
        );
        assert_eq!(content.unwrap().as_str(), expected);
    }

    #[test]
    fn a_message_is_named_by_its_number_or_its_id() {
        let name = |json: &str| serde_json::from_str::<MessageName>(json).ok();
        assert_eq!(name("7"), Some(MessageName::Seq(7)));
        assert_eq!(name("\"7\""), Some(MessageName::Id("7".to_owned())));
        for neither in ["7.5", "true", "[7]", "null"] {
            assert_eq!(name(neither), None, "{neither}");
        }
    }
}
