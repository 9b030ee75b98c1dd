use serde_json::{Value, json};

use super::{assistant, call, refusal, request, text, tool, user};

#[test]
fn at_most_four_cache_markers_are_accepted() {
    let mark = |mut block: Value| {
        block["cache_control"] = json!({ "type": "ephemeral" });
        block
    };
    let result = json!({ "type": "tool_result", "tool_use_id": "t", "content": [mark(text("a"))] });
    let mut body = request(&json!({
        "tools": [mark(tool("a"))],
        "system": [mark(text("s"))],
        "messages": [
            user(json!([mark(text("a"))])),
            assistant(json!([call("t")])),
            user(json!([result])),
        ],
    }));
    assert_eq!(refusal(&body), "");
    body["cache_control"] = json!({ "type": "ephemeral" });
    let expected = "A maximum of 4 blocks with cache_control may be provided. Found 5.";
    assert_eq!(refusal(&body), expected);
}

#[test]
fn breakpoints_of_one_hour_come_first() {
    let mark = |mut block: Value, ttl: &str| {
        block["cache_control"] = json!({ "type": "ephemeral", "ttl": ttl });
        block
    };
    let refusal_of = |system: &str, message: &str, automatic: &str| {
        let mut body = request(&json!({
            "system": [mark(text("s"), system)],
            "messages": [user(json!([mark(text("a"), message), text("b")]))],
        }));
        body["cache_control"] = json!({ "type": "ephemeral", "ttl": automatic });
        refusal(&body)
    };
    let late = "cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' \
                cache_control block. Note that blocks are processed in the following order: \
                `tools`, `system`, `messages`.";
    for (ttls, refused) in [
        (["1h", "1h", "1h"], ""),
        (["1h", "5m", "5m"], ""),
        (["5m", "1h", "1h"], late),
        (["1h", "5m", "1h"], late),
    ] {
        let [system, message, automatic] = ttls;
        assert_eq!(refusal_of(system, message, automatic), refused, "{ttls:?}");
    }
    let mut twice = request(&json!({ "messages": [user(json!([mark(text("a"), "1h")]))] }));
    twice["cache_control"] = json!({ "type": "ephemeral" });
    let expected = "cache_control: the last block is already marked with a different ttl than \
                    automatic caching asks for";
    assert_eq!(refusal(&twice), expected);
}

#[test]
fn cache_markers_are_well_formed_and_mark_content() {
    let marked = |block: Value| {
        let mut block = block;
        block["cache_control"] = json!({ "type": "ephemeral", "ttl": "1h" });
        block
    };
    let thinking = marked(json!({ "type": "thinking", "thinking": "a", "signature": "b" }));
    let refusal_of = |block: Value| {
        let messages = json!([user("a"), assistant(json!([block])), user("b")]);
        refusal(&request(&json!({ "messages": messages })))
    };
    assert_eq!(refusal_of(marked(text("a"))), "");
    let empty = "messages.1.content.0: cache_control cannot be set for empty text blocks";
    assert_eq!(refusal_of(marked(text(""))), empty);
    let extra = "messages.1.content.0.thinking.cache_control: Extra inputs are not permitted";
    assert_eq!(refusal_of(thinking), extra);
    let system = request(&json!({ "system": [marked(text(""))] }));
    assert_eq!(refusal(&system), "system.0: cache_control cannot be set for empty text blocks");
    let mut odd = request(&json!({ "cache_control": { "type": "ephemeral", "ttl": "2h" } }));
    assert_eq!(refusal(&odd), "cache_control.ttl: Input should be '5m' or '1h'");
    odd["cache_control"] = json!({ "type": "persistent" });
    assert_eq!(refusal(&odd), "cache_control.type: Input should be 'ephemeral'");
}
