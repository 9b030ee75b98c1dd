//! The check of the calls of a reply. The server would refuse every later request of the session with
//! an invalid name or id in its history, so none enters it.

use serde_json::value::to_raw_value;

use crate::domain::call_syntax::{MAX_WORD, is_word, shown};
use crate::domain::ids::CallId;
use crate::model::error::ModelError;
use crate::model::raw_object::RawObject;

/// Returns true for the types of blocks that call a tool.
pub(super) fn is_call(kind: &str) -> bool {
    matches!(kind, "tool_use" | "server_tool_use" | "mcp_tool_use")
}

/// Returns a block that begins, or an error if it is a call that cannot be sent back. A call of a
/// tool of the service or the client gets a new id where its own is invalid or was used before, which
/// happens with some servers. The results of other calls refer to their ids, so these are kept.
pub(super) fn with_valid_call(
    mut block: RawObject,
    is_used: impl Fn(&str) -> bool,
) -> Result<RawObject, ModelError> {
    let kind: String = block.read("type").unwrap_or_default();
    if !is_call(&kind) {
        return Ok(block);
    }
    let [id, name] = ["id", "name"].map(|key| block.read::<String>(key).unwrap_or_default());
    // The provider's connector decides which names the tools of MCP servers have.
    if kind != "mcp_tool_use" && !is_word(&name, MAX_WORD) {
        return Err(ModelError::BadCall(format!("{} is not the name of a tool", shown(&name))));
    }
    let is_valid = is_word(&id, MAX_WORD);
    if kind == "tool_use" && (!is_valid || is_used(&id)) {
        tracing::warn!(id = shown(&id), "call of a reply got a new id");
        let new = to_raw_value(&CallId::new().to_string());
        block.set("id", new.map_err(|error| ModelError::Malformed(error.to_string()))?);
    } else if !is_valid {
        return Err(ModelError::BadCall(format!("{} is not the id of a call", shown(&id))));
    }
    Ok(block)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The block as it is stored, for a history with a call `used`; none if it is refused.
    fn checked(block: Value) -> Option<Value> {
        let block: RawObject = serde_json::from_value(block).unwrap();
        let block = with_valid_call(block, |id| id == "used").ok()?;
        Some(serde_json::to_value(&block).unwrap())
    }

    fn call(kind: &str, id: &str, name: &str) -> Value {
        json!({ "type": kind, "id": id, "name": name, "input": {} })
    }

    #[test]
    fn valid_calls_and_other_blocks_are_unchanged() {
        for block in [
            call("tool_use", "toolu_1", "Read"),
            call("server_tool_use", "srvtoolu_1", "web_search"),
            call("server_tool_use", "used", "web_search"),
            call("mcp_tool_use", "mcptoolu_1", "files.find"),
            json!({ "type": "text", "id": "a b", "text": "" }),
        ] {
            assert_eq!(checked(block.clone()), Some(block));
        }
    }

    #[test]
    fn a_call_with_an_invalid_or_used_id_gets_a_new_one() {
        for id in ["", "a b", "used", "\u{e5}", &"x".repeat(129)] {
            let block = checked(call("tool_use", id, "Read")).unwrap();
            let new = block["id"].as_str().unwrap();
            assert!(new.starts_with("call_") && is_word(new, MAX_WORD), "{block}");
        }
    }

    #[test]
    fn calls_that_cannot_be_sent_back_are_refused() {
        for block in [
            call("tool_use", "toolu_1", ""),
            call("tool_use", "toolu_1", "read file"),
            call("tool_use", "toolu_1", &"x".repeat(10_000)),
            call("server_tool_use", "a b", "web_search"),
            call("server_tool_use", "srvtoolu_1", "web search"),
            call("mcp_tool_use", "", "find"),
            json!({ "type": "tool_use", "id": "toolu_1" }),
        ] {
            assert_eq!(checked(block.clone()), None, "{block}");
        }
    }
}
