//! What the OpenAPI document says of the members of answers.

use serde_json::{Value, json};

fn document() -> Value {
    serde_json::to_value(twostep::http::document()).unwrap()
}

#[test]
fn blocks_of_content_have_a_type_and_those_of_text_a_text() {
    let document = document();
    let schemas = &document["components"]["schemas"];
    let required = |name: &str| schemas[name]["required"].clone();
    assert_eq!(required("ContentBlock"), json!(["type"]));
    assert_eq!(required("TextBlock"), json!(["type", "text"]));
    let blocks = |owner: &str| {
        let items = &schemas[owner]["properties"]["content"]["items"]["$ref"];
        items.as_str().unwrap().rsplit('/').next().unwrap()
    };
    for owner in ["AgentMessageEvent", "AgentThinkingEvent", "AgentToolResultEvent"] {
        assert_eq!(blocks(owner), "TextBlock", "{owner}");
    }
    for owner in ["HistoryMessage", "UserCustomToolResultEvent", "UserMessageEvent"] {
        assert_eq!(blocks(owner), "ContentBlock", "{owner}");
    }
}
