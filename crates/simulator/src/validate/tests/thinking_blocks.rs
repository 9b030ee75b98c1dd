use serde_json::{Value, json};

use super::{assistant, betas, call, refusal, result, rules, text, tool, user, verdict};
use crate::request::ApiRequest;
use crate::signature::{Prefix, summary};
use crate::validate::Rules;

/// A request whose first assistant message has two blocks, signed for that position.
fn signed() -> Value {
    let mut body = json!({
        "model": "simulator",
        "max_tokens": 100,
        "system": "be brief",
        "tools": [tool("a")],
        "messages": [user("hello")],
    });
    let prefix = Prefix::of(ApiRequest(body.as_object().unwrap()));
    let block = |thought: &str| {
        let signature = prefix.sign("simulator", thought);
        json!({ "type": "thinking", "thinking": thought, "signature": signature })
    };
    let content = json!([block("first"), block("second"), call("t")]);
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(assistant(content));
    messages.push(user(json!([result("t")])));
    body
}

fn bound(at: &str) -> String {
    format!(
        "{at}: Invalid `signature` in `thinking` block. The block is bound to a different \
         conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` \
         to \"drop_block\"."
    )
}

#[test]
fn an_unchanged_replay_is_accepted() {
    let mut body = signed();
    assert_eq!(refusal(&body), "");
    body["tool_choice"] = json!({ "type": "none" });
    body["max_tokens"] = json!(7);
    body["tools"][0]["cache_control"] = json!({ "type": "ephemeral" });
    body["system"] = json!([{ "type": "text", "text": "be brief",
                              "cache_control": { "type": "ephemeral" } }]);
    body["messages"][0]["content"] = json!([{ "type": "text", "text": "hello",
                                              "cache_control": { "type": "ephemeral" } }]);
    assert_eq!(refusal(&body), "", "markers and the two forms of a text do not count");
}

#[test]
fn edited_thinking_is_refused() {
    let mut body = signed();
    body["messages"][1]["content"][1]["thinking"] = json!("altered");
    let latest = "messages.1.content.1: `thinking` or `redacted_thinking` blocks in the latest \
                  assistant message cannot be modified. These blocks must remain as they were in \
                  the original response.";
    assert_eq!(refusal(&body), latest);
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(assistant(json!([text("done")])));
    messages.push(user("more"));
    let earlier = "messages.1.content.1: Invalid `signature` in `thinking` block";
    assert_eq!(refusal(&body), earlier);
}

#[test]
fn a_malformed_signature_is_invalid_and_a_foreign_one_is_accepted() {
    let mut body = signed();
    body["messages"][1]["content"][0]["signature"] = json!("sim1.abc");
    let invalid = "messages.1.content.0: Invalid `signature` in `thinking` block";
    assert_eq!(refusal(&body), invalid);
    body["messages"][1]["content"][0]["signature"] = json!("EosnSample==");
    let rest = bound("messages.1.content.1");
    assert_ne!(refusal(&body), rest, "the second block was signed for the same request");
    assert_eq!(refusal(&body), "");
}

#[test]
fn any_change_before_the_block_is_refused() {
    let at = "messages.1.content.0";
    let changed = |change: fn(&mut Value)| {
        let mut body = signed();
        change(&mut body);
        refusal(&body)
    };
    assert_eq!(changed(|body| body["messages"][0]["content"] = json!("hallo")), bound(at));
    let described = |body: &mut Value| body["tools"][0]["description"] = json!("new");
    assert_eq!(changed(described), bound(at));
    let reordered = |body: &mut Value| {
        body["tools"][0] = json!({ "input_schema": { "type": "object" }, "name": "a" });
    };
    assert_eq!(changed(reordered), bound(at), "the order of keys counts");
    let system = format!(
        "{} The `system` prompt differs from the one this block was created with.",
        bound(at)
    );
    assert_eq!(changed(|body| body["system"] = json!("be long")), system);
}

#[test]
fn the_thinking_of_another_model_is_dropped_without_an_error() {
    let mut body = signed();
    body["model"] = json!("simulator-2");
    body["system"] = json!("other");
    let invalid = "messages.1.content.0: Invalid `signature` in `thinking` block";
    assert_eq!(refusal(&body), invalid, "a tool loop has one model");
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(assistant(json!([text("done")])));
    messages.push(user("more"));
    assert_eq!(refusal(&body), "");
}

#[test]
fn thinking_is_neither_enabled_nor_disabled_within_a_tool_loop() {
    let enabled = json!({ "type": "enabled", "budget_tokens": 1024 });
    let mut body = signed();
    body["max_tokens"] = json!(2000);
    for (thinking, expected) in [
        (enabled.clone(), ""),
        (json!({ "type": "adaptive" }), ""),
        (
            json!({ "type": "disabled" }),
            "messages.1.content.0: When thinking is disabled, an `assistant` message in the final \
             position cannot contain `thinking`. To use thinking blocks, enable `thinking` in your \
             request.",
        ),
    ] {
        body["thinking"] = thinking;
        assert_eq!(refusal(&body), expected);
    }
    // The second reply of the loop need not think.
    body["thinking"] = enabled;
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(assistant(json!([call("u")])));
    messages.push(user(json!([result("u")])));
    assert_eq!(refusal(&body), "");
    body["messages"][1]["content"].as_array_mut().unwrap().drain(..2);
    let refused = refusal(&body);
    let expected = "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found \
                    `tool_use`. When `thinking` is enabled, a final `assistant` message must start";
    assert!(refused.starts_with(expected), "{refused}");
    // Another turn has another setting.
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(assistant(json!([text("done")])));
    messages.push(user("more"));
    assert_eq!(refusal(&body), "");
}

#[test]
fn omitting_all_thinking_is_accepted_and_omitting_an_earlier_block_is_not() {
    let mut body = signed();
    // A second round, signed over the first with its thinking.
    let prefix = Prefix::of(ApiRequest(body.as_object().unwrap()));
    let signature = prefix.sign("simulator", "third");
    let third = json!({ "type": "thinking", "thinking": "third", "signature": signature });
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(assistant(json!([third, call("u")])));
    messages.push(user(json!([result("u")])));
    assert_eq!(refusal(&body), "");
    let first = body["messages"][1]["content"].as_array_mut().unwrap();
    first.drain(..2);
    assert_eq!(refusal(&body), bound("messages.3.content.0"));
    body["messages"][3]["content"].as_array_mut().unwrap().remove(0);
    assert_eq!(refusal(&body), "");
}

/// The request after a summary of the first `summed_up` messages, with the messages from `kept` on.
fn after_a_summary(conversation: &Value, summed_up: usize, kept: usize) -> Value {
    let mut body = conversation.clone();
    body["messages"].as_array_mut().unwrap().truncate(summed_up);
    let block = summary::block(ApiRequest(body.as_object().unwrap()), "We talked.");
    let kept = conversation["messages"].as_array().unwrap().iter().skip(kept).cloned();
    body["messages"] = std::iter::once(assistant(json!([block]))).chain(kept).collect();
    body
}

fn refused_after(body: &Value) -> String {
    let rules = Rules { betas: betas("compact-2026-09-04"), ..rules() };
    verdict(body, &rules).err().map_or_else(String::new, |refusal| refusal.message)
}

#[test]
fn thinking_directly_after_the_summarized_messages_stays_valid() {
    assert_eq!(refused_after(&after_a_summary(&signed(), 1, 1)), "");
}

#[test]
fn summarized_thinking_is_not_valid_after_the_summary() {
    for summed_up in [2, 3] {
        let body = after_a_summary(&signed(), summed_up, 1);
        assert_eq!(refused_after(&body), bound("messages.1.content.0"), "{summed_up}");
    }
}

#[test]
fn thinking_stays_valid_only_if_the_summary_ends_with_its_turn() {
    let mut body = signed();
    body["messages"] = json!([user("hello"), user("there")]);
    let signature = Prefix::of(ApiRequest(body.as_object().unwrap())).sign("simulator", "hm");
    let thinking = json!({ "type": "thinking", "thinking": "hm", "signature": signature });
    let answer = assistant(json!([thinking, text("hi")]));
    body["messages"].as_array_mut().unwrap().extend([answer, user("more")]);
    assert_eq!(refused_after(&after_a_summary(&body, 2, 2)), "");
    let cut = after_a_summary(&body, 1, 1);
    assert_eq!(refused_after(&cut), bound("messages.2.content.0"));
}

#[test]
fn thinking_of_another_conversation_is_refused_after_a_summary() {
    let mut other = signed();
    other["messages"] = json!([user("something else")]);
    let mut body = after_a_summary(&other, 1, 1);
    let kept = signed()["messages"].as_array().unwrap()[1..].to_vec();
    body["messages"].as_array_mut().unwrap().extend(kept);
    assert_eq!(refused_after(&body), bound("messages.1.content.0"));
}

#[test]
fn a_summary_does_not_hide_a_change_of_settings_or_thinking() {
    let mut body = after_a_summary(&signed(), 1, 1);
    body["tools"][0]["description"] = json!("new");
    assert_eq!(refused_after(&body), bound("messages.1.content.0"));
    let mut body = after_a_summary(&signed(), 1, 1);
    body["messages"][1]["content"][1]["thinking"] = json!("altered");
    assert!(refused_after(&body).starts_with("messages.1.content.1: `thinking` or"));
}

#[test]
fn thinking_after_a_summary_is_bound_to_it() {
    let mut body = after_a_summary(&signed(), 3, 3);
    body["messages"].as_array_mut().unwrap().push(user("go on"));
    let signature = Prefix::of(ApiRequest(body.as_object().unwrap())).sign("simulator", "new");
    let block = json!({ "type": "thinking", "thinking": "new", "signature": signature });
    let messages = body["messages"].as_array_mut().unwrap();
    messages.extend([assistant(json!([block, text("done")])), user("more")]);
    assert_eq!(refused_after(&body), "");
    body["messages"].as_array_mut().unwrap().remove(0);
    assert_eq!(refused_after(&body), bound("messages.1.content.0"));
}
