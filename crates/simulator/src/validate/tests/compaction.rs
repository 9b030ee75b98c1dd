use serde_json::{Value, json};

use super::{assistant, betas, call, request, result, rules, text, tool, user, verdict};
use crate::request::ApiRequest;
use crate::signature::summary;
use crate::validate::{Endpoint, Rules};

const AUTOMATIC: &str = "compact-2026-01-12";

const PREFILL: &str = "This model does not support assistant message prefill. The conversation \
                       must end with a user message.";

fn on_request() -> Rules {
    Rules { betas: betas("compact-2026-09-04"), ..rules() }
}

/// The message of the refusal and its code; both are empty for an accepted request.
fn refused(body: &Value) -> (String, String) {
    let Err(refusal) = verdict(body, &on_request()) else {
        return (String::new(), String::new());
    };
    let code = refusal.details.as_ref().and_then(|details| details["error_code"].as_str());
    (refusal.message.clone(), code.unwrap_or_default().to_owned())
}

fn message(body: &Value) -> String {
    refused(body).0
}

/// A request for a summary, with `fields` added or replaced.
fn summarize(fields: &Value) -> Value {
    let mut body = request(&json!({ "compaction": { "type": "summarize" } }));
    for (field, value) in fields.as_object().unwrap() {
        body[field] = value.clone();
    }
    body
}

#[test]
fn a_summary_needs_its_feature_and_a_model_that_supports_it() {
    let body = summarize(&json!({}));
    assert_eq!(refused(&body), Default::default());
    for names in ["compact-2026-01-12", "context-management-2025-06-27"] {
        let refused = verdict(&body, &Rules { betas: betas(names), ..rules() }).unwrap_err();
        assert_eq!(refused.message, "compaction: requires anthropic-beta: compact-2026-09-04");
    }
    let unsupported = "compaction is not supported by this model";
    for (model, expected) in [
        ("claude-haiku-4-5", unsupported),
        ("claude-opus-4-5", unsupported),
        ("claude-opus-4-6", ""),
        ("claude-sonnet-4-6", ""),
        ("claude-mythos-preview", ""),
        ("claude-haiku-5-5", ""),
    ] {
        assert_eq!(message(&summarize(&json!({ "model": model }))), expected, "{model}");
    }
}

#[test]
fn the_setting_has_a_type_and_instructions_that_are_not_blank() {
    let with = |setting: Value| message(&summarize(&json!({ "compaction": setting })));
    let longest = "x".repeat(16_384);
    for (setting, expected) in [
        (json!({ "type": "summarize", "instructions": longest }), ""),
        (json!({ "type": "summarize", "instructions": null }), ""),
        (json!("summarize"), "compaction: Input should be a valid dictionary"),
        (json!({}), "compaction.type: Field required"),
        (json!({ "type": "drop" }), "compaction.type: Input should be 'summarize'"),
        (
            json!({ "type": "summarize", "model": "a" }),
            "compaction.model: Extra inputs are not permitted",
        ),
        (
            json!({ "type": "summarize", "instructions": " " }),
            "compaction.instructions: String should contain non-whitespace characters",
        ),
        (
            json!({ "type": "summarize", "instructions": format!("{longest}x") }),
            "compaction.instructions: String should have at most 16384 characters",
        ),
        (
            json!({ "type": "summarize", "instructions": 1 }),
            "compaction.instructions: Input should be a valid string",
        ),
    ] {
        assert_eq!(with(setting.clone()), expected, "{setting}");
    }
}

#[test]
fn a_summary_excludes_settings_for_a_reply() {
    let tools = json!([tool("a")]);
    let schema = json!({ "type": "object", "additionalProperties": false });
    let format = json!({ "format": { "type": "json_schema", "schema": schema } });
    for (fields, named) in [
        (json!({ "context_management": { "edits": [] } }), "context_management"),
        (json!({ "stop_sequences": ["."] }), "stop_sequences"),
        (json!({ "output_config": format }), "output_config.format"),
        (json!({ "tools": tools, "tool_choice": { "type": "any" } }), "tool_choice"),
        (json!({ "tools": tools, "tool_choice": { "type": "tool", "name": "a" } }), "tool_choice"),
    ] {
        let expected = format!("compaction: cannot be combined with {named}");
        let body = summarize(&fields);
        let both = betas("compact-2026-09-04,context-management-2025-06-27");
        let refused = verdict(&body, &Rules { betas: both, ..rules() }).unwrap_err();
        assert_eq!(refused.message, expected);
    }
    let allowed = json!({ "tools": tools, "tool_choice": { "type": "none" },
                          "output_config": { "effort": "low" }, "stream": true });
    assert_eq!(message(&summarize(&allowed)), "");
}

#[test]
fn a_conversation_can_end_with_the_assistant_but_not_with_an_open_call() {
    let ending = |last: Value| {
        let messages = json!([user("hello"), assistant(last)]);
        refused(&summarize(&json!({ "tools": [tool("a")], "messages": messages })))
    };
    assert_eq!(ending(json!("I am done.")), Default::default());
    let open = "compaction: the last assistant turn has a tool call without a result";
    let expected = (open.to_owned(), "compaction_incomplete_turn".to_owned());
    assert_eq!(ending(json!([call("t")])), expected);
    let search = json!({
        "type": "server_tool_use", "id": "srvtoolu_A", "name": "web_search", "input": {} });
    assert_eq!(ending(json!([search])), expected);
    let answered =
        json!([user("hello"), assistant(json!([call("t")])), user(json!([result("t")]))]);
    let body = summarize(&json!({ "tools": [tool("a")], "messages": answered }));
    assert_eq!(message(&body), "");
    let (_, code) = refused(&summarize(&json!({ "messages": [] })));
    assert_eq!(code, "compaction_nothing_to_summarize");
}

#[test]
fn a_summary_fits_the_window_and_a_count_ignores_it() {
    let small = Rules { max_input_tokens: 10, tokens: 11, ..on_request() };
    let refused = verdict(&summarize(&json!({})), &small).unwrap_err();
    assert_eq!(refused.message, "prompt is too long: 11 tokens > 10 maximum");
    let mut body = summarize(&json!({}));
    body.as_object_mut().unwrap().shift_remove("max_tokens");
    let counting = Rules { endpoint: Endpoint::CountTokens, ..on_request() };
    assert_eq!(verdict(&body, &counting), Ok(()));
    body["compaction"] = json!({ "type": "whatever" });
    assert_eq!(verdict(&body, &counting), Ok(()));
    let refused = verdict(&body, &Rules { betas: betas(AUTOMATIC), ..counting }).unwrap_err();
    assert_eq!(refused.message, "compaction: Extra inputs are not permitted");
}

/// The signed summary of a conversation.
fn signed() -> Value {
    let body = request(&json!({ "messages": [user("hello"), assistant("hi")] }));
    summary::block(ApiRequest(body.as_object().unwrap()), "We greeted each other.")
}

fn after(messages: &Value) -> Value {
    request(&json!({ "tools": [tool("a")], "messages": messages }))
}

#[test]
fn a_signed_summary_is_first_and_alone() {
    let block = signed();
    for fine in [
        json!([assistant(json!([block])), user("go on")]),
        json!([user(json!([block, text("go on")]))]),
        json!([assistant(json!([block])), assistant("I had said this."), user("go on")]),
        json!([assistant(json!([block, text("I had said this.")])), user("go on")]),
    ] {
        assert_eq!(refused(&after(&fine)), Default::default(), "{fine}");
    }
    for (misplaced, at) in [
        (json!([user("a"), assistant(json!([block])), user("b")]), "messages.1.content.0"),
        (json!([user(json!([text("a"), block]))]), "messages.0.content.1"),
    ] {
        let (message, code) = refused(&after(&misplaced));
        assert_eq!(code, "compaction_block_misplaced");
        assert!(message.starts_with(at), "{message}");
    }
    let twice = json!([assistant(json!([block, block])), user("b")]);
    assert_eq!(message(&after(&twice)), "messages: a request may have only one `compaction` block");
    assert_eq!(message(&after(&json!([assistant(json!([block]))]))), PREFILL);
    let without = json!([assistant("a"), user("b")]);
    assert_eq!(message(&after(&without)), "messages: first message must use the \"user\" role");
}

#[test]
fn a_signed_summary_needs_its_feature() {
    for content in
        [json!([assistant(json!([signed()])), user("a")]), json!([user(json!([signed()]))])]
    {
        let refused = verdict(&after(&content), &rules()).unwrap_err();
        assert!(
            refused.message.starts_with(
                "messages.0.content.0: Input tag 'compaction' found using 'type' does not match \
                 any of the expected tags: '"
            ),
            "{}",
            refused.message
        );
    }
}

#[test]
fn a_signed_summary_is_exactly_as_returned() {
    let with = |field: &str, value: Value| {
        let mut block = signed();
        block[field] = value;
        refused(&after(&json!([assistant(json!([block])), user("go on")])))
    };
    assert_eq!(with("cache_control", json!({ "type": "ephemeral" })), Default::default());
    assert_eq!(with("content", json!("We fought.")).1, "compaction_content_mismatch");
    let signature = signed()["signature"].as_str().unwrap().to_owned();
    let other = signature.replace("simc1.", "simc1.0");
    for signature in [other.as_str(), "EosnSample==", ""] {
        assert_eq!(with("signature", json!(signature)).1, "compaction_signature_invalid");
    }
    for (field, value, expected) in [
        ("citations", json!([]), "citations: Extra inputs are not permitted"),
        ("content", json!(null), "content: Field required"),
        ("signature", json!(1), "signature: Field required"),
    ] {
        let expected = format!("messages.0.content.0.compaction.{expected}");
        assert_eq!(with(field, value).0, expected);
    }
}

#[test]
fn a_signed_summary_is_not_summarized_automatically() {
    let mut body = after(&json!([assistant(json!([signed()])), user("go on")]));
    body["context_management"] = json!({ "edits": [{ "type": "compact_20260112" }] });
    let both = Rules { betas: betas("compact-2026-09-04,compact-2026-01-12"), ..rules() };
    let expected = "context_management.edits: compact_20260112 cannot be used with a signed \
                    `compaction` block";
    assert_eq!(verdict(&body, &both).unwrap_err().message, expected);
    body["messages"] = json!([user("go on")]);
    assert_eq!(verdict(&body, &both), Ok(()));
}

fn unsigned() -> Value {
    json!({ "type": "compaction", "content": "We greeted each other." })
}

/// The refusal of a request with the edit for automatic summaries.
fn automatic(messages: &Value) -> String {
    let mut body = after(messages);
    body["context_management"] = json!({ "edits": [{ "type": "compact_20260112" }] });
    let rules = Rules { betas: betas(AUTOMATIC), ..rules() };
    verdict(&body, &rules).err().map_or_else(String::new, |refusal| refusal.message)
}

#[test]
fn an_unsigned_summary_needs_its_feature_and_its_edit() {
    let messages = json!([user("hello"), assistant(json!([unsigned()])), user("go on")]);
    assert_eq!(automatic(&messages), "");
    let refused = |betas_named: &str| {
        let rules = Rules { betas: betas(betas_named), ..rules() };
        verdict(&after(&messages), &rules).unwrap_err().message
    };
    let edit = "`compaction` blocks require a `compact_20260112` strategy in \
                `context_management.edits`.";
    assert_eq!(refused(AUTOMATIC), edit);
    let signature =
        "messages.1.content.0: a `compaction` block with `content` requires its `signature`";
    assert_eq!(refused("compact-2026-09-04"), signature);
    let tag = "messages.1.content.0: Input tag 'compaction' found using 'type' does not match any \
               of the expected tags: '";
    assert!(refused("context-management-2025-06-27").starts_with(tag));
}

#[test]
fn a_reply_continues_after_an_unsigned_summary_and_not_before_it() {
    let ending = |last: Value| automatic(&json!([user("hello"), assistant(last)]));
    assert_eq!(ending(json!([unsigned()])), "");
    assert_eq!(ending(json!([unsigned(), text("hi")])), PREFILL);
    assert_eq!(ending(json!("hi")), PREFILL);
}

#[test]
fn images_before_an_unsigned_summary_do_not_count() {
    let image = json!({ "type": "image",
                        "source": { "type": "url", "url": "https://example.com/a.png" } });
    let many = user(vec![image; 101]);
    let summed_up = json!([many, assistant(json!([unsigned()])), user("go on")]);
    assert_eq!(automatic(&summed_up), "");
    let too_many = "messages: Too much media: 0 document pages + 101 images > 100";
    assert_eq!(automatic(&json!([many, assistant("hi"), user("go on")])), too_many);
}

#[test]
fn messages_before_an_unsigned_summary_do_not_count() {
    let open = [user("hello"), assistant(json!([call("t")]))];
    let with = |block: Value| {
        let mut messages = open.to_vec();
        messages.push(assistant(json!([block])));
        messages.push(user("go on"));
        automatic(&json!(messages))
    };
    assert_eq!(with(unsigned()), "");
    assert!(with(text("anything else")).starts_with("messages.1: `tool_use` ids were found"));
    let failed = json!({ "type": "compaction", "content": null });
    assert!(with(failed).starts_with("messages.1: `tool_use` ids were found"));
}
