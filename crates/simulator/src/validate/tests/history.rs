use serde_json::{Value, json};

use super::{assistant, call, history, refusal, request, result, text, user};

fn of(messages: &[Value]) -> String {
    refusal(&history(&json!(messages)))
}

/// A question and an assistant message with these blocks.
fn asked(content: Value) -> [Value; 2] {
    [user("hello"), assistant(content)]
}

fn then(mut messages: Vec<Value>, content: Value) -> Vec<Value> {
    messages.push(user(content));
    messages
}

#[test]
fn every_call_has_a_result_in_the_next_message() {
    let calls = asked(json!([text("a"), call("toolu_A"), call("toolu_B")])).to_vec();
    let expected = |ids: &str| {
        format!(
            "messages.1: `tool_use` ids were found without `tool_result` blocks immediately \
             after: {ids}. Each `tool_use` block must have a corresponding `tool_result` block in \
             the next message."
        )
    };
    let both = json!([result("toolu_B"), result("toolu_A"), text("and?")]);
    assert_eq!(of(&then(calls.clone(), both)), "");
    assert_eq!(of(&calls), expected("toolu_A, toolu_B"));
    assert_eq!(of(&then(calls.clone(), json!("go on"))), expected("toolu_A, toolu_B"));
    let one = json!([result("toolu_A")]);
    assert_eq!(of(&then(calls.clone(), one.clone())), expected("toolu_B"));
    let late = json!([result("toolu_A"), text("x"), result("toolu_B")]);
    assert_eq!(of(&then(calls.clone(), late)), expected("toolu_B"));
    let apart = then(then(calls, one), json!([result("toolu_B")]));
    assert_eq!(of(&apart), "", "consecutive user messages are one turn");
}

#[test]
fn names_and_ids_of_calls_match_their_patterns() {
    let asked_with = |member: &str, value: &str| {
        let mut call = call("toolu_A");
        call[member] = value.into();
        let id = call["id"].as_str().unwrap().to_owned();
        of(&then(asked(json!([call])).to_vec(), json!([result(&id)])))
    };
    assert_eq!(asked_with("name", &"x".repeat(128)), "");
    for name in [String::new(), "a b".to_owned(), "x".repeat(129)] {
        let expected = "messages.1.content.0.tool_use.name: String should match pattern \
                        '^[a-zA-Z0-9_-]{1,128}$'";
        assert_eq!(asked_with("name", &name), expected);
    }
    let expected = "messages.1.content.0.tool_use.id: String should match pattern \
                    '^[a-zA-Z0-9_-]+$'";
    assert_eq!(asked_with("id", "a b"), expected);
    let search =
        json!([{ "type": "server_tool_use", "id": "a.b", "name": "web_search", "input": {} }]);
    let expected = "messages.1.content.0.server_tool_use.id: String should match pattern \
                    '^[a-zA-Z0-9_-]+$'";
    assert_eq!(of(&asked(search)), expected);
}

#[test]
fn a_result_belongs_to_a_call_of_the_turn_before() {
    let expected = |at: &str| {
        format!(
            "messages.{at}: unexpected `tool_use_id` found in `tool_result` blocks: toolu_X. Each \
             `tool_result` block must have a corresponding `tool_use` block in the previous \
             message."
        )
    };
    assert_eq!(of(&[user(json!([result("toolu_X")]))]), expected("0.content.0"));
    let calls = asked(json!([call("toolu_A")])).to_vec();
    let stray = then(calls, json!([result("toolu_A"), result("toolu_X")]));
    assert_eq!(of(&stray), expected("2.content.1"));
}

#[test]
fn a_call_has_one_result_and_a_unique_id() {
    let calls = asked(json!([call("toolu_A")])).to_vec();
    let twice = then(calls, json!([result("toolu_A"), result("toolu_A")]));
    let expected = "messages.2.content.1: each tool_use must have a single result. Found multiple \
                    `tool_result` blocks with id: toolu_A";
    assert_eq!(of(&twice), expected);
    let same = asked(json!([call("toolu_A"), call("toolu_A")])).to_vec();
    let expected = "messages.1.content.1: `tool_use` ids must be unique";
    assert_eq!(of(&then(same, json!([result("toolu_A")]))), expected);
}

#[test]
fn text_is_not_blank() {
    let empty = "messages: text content blocks must be non-empty";
    let blank = "messages: text content blocks must contain non-whitespace text";
    for (said, expected) in [("", empty), (" \n", blank), ("a", "")] {
        assert_eq!(of(&[user(json!([text(said)]))]), expected);
        let echoed = then(asked(json!([text(said)])).to_vec(), json!("b"));
        assert_eq!(of(&echoed), expected);
    }
    assert_eq!(of(&[user(" ")]), blank);
    let inner = json!([{ "type": "tool_result", "tool_use_id": "t", "content": [text("")] }]);
    assert_eq!(of(&then(asked(json!([call("t")])).to_vec(), inner)), empty);
    let nothing = json!([{ "type": "tool_result", "tool_use_id": "t" }]);
    assert_eq!(of(&then(asked(json!([call("t")])).to_vec(), nothing)), "");
}

#[test]
fn no_message_is_empty() {
    let expected = "messages.0: all messages must have non-empty content except for the optional \
                    final assistant message";
    assert_eq!(of(&[user(json!([]))]), expected);
    assert_eq!(of(&[user("")]), expected);
    assert_eq!(of(&[user(json!(1))]), "messages.0.content: Input should be a valid list");
    assert_eq!(of(&[json!({ "role": "user" })]), "messages.0.content: Field required");
}

#[test]
fn a_conversation_begins_and_ends_with_the_user() {
    let prefill = "This model does not support assistant message prefill. The conversation must \
                   end with a user message.";
    assert_eq!(of(&asked(json!("I think"))), prefill);
    let first = [assistant("hi"), user("a")];
    assert_eq!(of(&first), "messages: first message must use the \"user\" role");
}

#[test]
fn a_paused_turn_is_sent_back_without_a_user_message() {
    let search = json!({
        "type": "server_tool_use", "id": "srvtoolu_A", "name": "web_search", "input": {} });
    let found = json!({
        "type": "web_search_tool_result", "tool_use_id": "srvtoolu_A", "content": [] });
    assert_eq!(of(&asked(json!([search]))), "");
    assert!(of(&asked(json!([search, found]))).contains("prefill"));
    assert_eq!(of(&then(asked(json!([search, found])).to_vec(), json!("go on"))), "");
    let open = "`web_search` tool use with id `srvtoolu_A` was found without a corresponding \
                `web_search_tool_result` block";
    assert_eq!(of(&then(asked(json!([search])).to_vec(), json!("go on"))), open);
    let stray = "messages.1.content.0: unexpected `tool_use_id` found in `web_search_tool_result` \
                 blocks: srvtoolu_A. Each `web_search_tool_result` block must have a \
                 corresponding `server_tool_use` block before it.";
    assert_eq!(of(&then(asked(json!([found])).to_vec(), json!("go on"))), stray);
}

#[test]
fn blocks_are_complete_and_in_messages_that_allow_them() {
    let odd = [user(json!([{ "type": "video" }]))];
    assert!(of(&odd).starts_with("messages.0.content.0: Input tag 'video' found using 'type'"));
    let echoed = then(asked(json!([{ "type": "video", "any": 1 }])).to_vec(), json!("b"));
    assert_eq!(of(&echoed), "", "what a model sent may be sent back");
    let calls = "messages.0: `tool_use` blocks can only be in `assistant` messages";
    assert_eq!(of(&[user(json!([call("t")]))]), calls);
    let results = "messages.1: `tool_result` blocks can only be in `user` messages";
    assert_eq!(of(&asked(json!([result("t")]))), results);
    let mut bare = call("t");
    bare["input"] = json!("{}");
    let input = "messages.1.content.0.tool_use.input: Input should be a valid dictionary";
    assert_eq!(of(&asked(json!([bare]))), input);
    let nested = json!([{ "type": "tool_result", "tool_use_id": "t",
                          "content": [{ "type": "tool_use" }] }]);
    let refused = of(&then(asked(json!([call("t")])).to_vec(), nested));
    assert!(refused.starts_with("messages.2.content.0.tool_result.content.0: Input tag"));
    let shown = json!([{ "type": "tool_result", "tool_use_id": "t", "is_error": true,
                         "content": [{ "type": "image", "source": {} }] }]);
    let refused = of(&then(asked(json!([call("t")])).to_vec(), shown));
    let text_only = "messages.2.content.0.tool_result: all content must be type `text` if \
                     `is_error` is true";
    assert_eq!(refused, text_only);
    assert_eq!(of(&[user(json!([{ "text": "a" }]))]), "messages.0.content.0.type: Field required");
}

#[test]
fn system_messages_depend_on_model_and_position() {
    let system = json!({ "role": "system", "content": "now" });
    let on = |model: &str, messages: &[Value]| {
        refusal(&request(&json!({ "model": model, "messages": messages })))
    };
    let late = [user("a"), system.clone()];
    assert_eq!(on("claude-opus-4-8", &late), "");
    let unknown = "messages: Unexpected role \"system\". The Messages API accepts a top-level \
                   `system` parameter, not \"system\" as an input message role.";
    assert_eq!(on("simulator", &late), unknown);
    assert_eq!(on("claude-sonnet-5", &late), unknown);
    let placed = |messages: &[Value]| on("claude-opus-5", messages);
    let expected = "must follow a user message and be the last or be followed by an assistant";
    assert!(placed(&[system.clone(), user("a")]).contains(expected));
    assert!(placed(&[user("a"), system.clone(), user("b")]).contains(expected));
    assert!(placed(&[user("a"), assistant("b"), system]).contains(expected));
}

#[test]
fn a_server_tool_result_can_follow_results_of_client_calls() {
    let search = json!({ "type": "server_tool_use", "id": "srvtoolu_S", "name": "web_search",
                         "input": {} });
    let found = json!({ "type": "web_search_tool_result", "tool_use_id": "srvtoolu_S",
                        "content": [] });
    let mixed = asked(json!([search, call("toolu_A")])).to_vec();
    let answered = then(mixed, json!([result("toolu_A")]));
    let late = |mut messages: Vec<Value>| {
        messages.push(assistant(json!([found, text("There.")])));
        of(&then(messages, json!("thanks")))
    };
    assert_eq!(late(answered.clone()), "");
    let said = then(answered, json!([text("and?")]));
    assert!(of(&said).contains("was found without a corresponding"), "{}", of(&said));
    let other = [user("hello"), assistant("Hi."), user("go on")].to_vec();
    assert!(late(other).contains("unexpected `tool_use_id` found in `web_search_tool_result`"));
}
