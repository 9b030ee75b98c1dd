use std::fs;

use serde_json::json;

use super::{Block, Placeholders, Script};

fn error(text: &str) -> String {
    Script::from_json(text).unwrap_err().to_string()
}

fn error_of_reply(reply: &serde_json::Value) -> String {
    error(&json!({ "conversations": [{ "replies": [reply] }] }).to_string())
}

#[test]
fn an_error_names_field_and_line() {
    let text = "{\"conversations\": [\n  {\"replies\": [\n    {\"contents\": []}]}]}";
    let error = error(text);
    assert!(error.starts_with("script, at `conversations[0].replies[0].contents`: unknown field"));
    assert!(error.contains("line 3"), "{error}");
}

#[test]
fn a_block_with_a_wrong_field_is_named() {
    for (block, problem) in [
        (json!({ "type": "text" }), "a block needs the string `text`"),
        (json!({ "type": "text", "text": "a", "size": 1 }), "a `text` block has no field `size`"),
        (json!({ "type": "tool_use", "name": "a", "input": 1 }), "`input` must be an object"),
        (json!({ "text": "a" }), "a block needs the string `type`"),
    ] {
        let error = error_of_reply(&json!({ "content": [block] }));
        assert!(
            error.starts_with("script, at `conversations[0].replies[0].content[0]`: "),
            "{error}"
        );
        assert!(error.contains(problem), "{error}");
    }
}

#[test]
fn an_unplayable_script_is_refused() {
    for (reply, expected) in [
        (json!({ "status": 200 }), "replies[0].status`: must be from 300 to 599"),
        (json!({ "headers": { "a b": "c" } }), "replies[0].headers`: invalid header `a b`"),
        (json!({ "raw_sse_file": "a" }), "raw_sse_file`: is allowed only in a script file"),
        (json!({ "fail_first": [{ "status": 99 }] }), "fail_first[0].status`: must be"),
        (json!({ "fail_first": [{ "fail_first": [{}] }] }), "cannot have `fail_first`"),
    ] {
        let error = error_of_reply(&reply);
        assert!(error.contains(expected), "{error}");
    }
    let counting = error(r#"{"counting": {"content": [{"type": "text", "text": "a"}]}}"#);
    assert!(counting.contains("`counting.content`: must be absent"), "{counting}");
    let counting = error(r#"{"counting": {"fail_first": [{"status": 99}]}}"#);
    assert!(counting.contains("`counting.fail_first[0].status`: must be"), "{counting}");
    assert!(error("{} {}").contains("trailing characters"));
}

#[test]
fn a_summary_is_one_block_and_its_replies_can_repeat() {
    let script = |replies: &serde_json::Value| {
        Script::from_json(&json!({ "compaction": replies }).to_string())
    };
    let summary = json!({ "content": [{ "type": "compaction", "content": "a" }], "repeat": 2 });
    let read = script(&json!([summary, { "stop_reason": "max_tokens" }])).unwrap();
    let text = |number| read.summary(number)?.summary()?.get("content")?.as_str();
    assert_eq!([0, 1, 2, 3].map(text), [Some("a"), Some("a"), None, None]);
    assert!(read.summary(2).is_some() && read.summary(3).is_none());
    let failed = json!({ "fail_first": [{ "content": [{ "type": "text", "text": "a" }] }] });
    let error = script(&json!([failed])).unwrap_err().to_string();
    assert!(error.contains("compaction[0].fail_first[0].content`: must be at most one"), "{error}");
    for (content, expected) in [
        (json!([{ "type": "text", "text": "a" }]), "must be at most one `compaction` block"),
        (json!([{ "type": "compaction" }, { "type": "compaction" }]), "must be at most one"),
        (json!([{ "type": "compaction", "content": 1 }]), "must be a string"),
    ] {
        let error = script(&json!([{}, { "content": content }])).unwrap_err().to_string();
        assert!(error.contains("compaction[1].content`: ") && error.contains(expected), "{error}");
    }
}

#[test]
fn blocks_of_other_types_stay_unchanged() {
    let raw = json!({ "b": 1, "type": "compaction", "a": [2] });
    let block: Block = serde_json::from_value(raw.clone()).unwrap();
    let Block::Raw(fields) = block else { panic!("{block:?}") };
    assert_eq!(serde_json::Value::Object(fields), raw);
}

#[test]
fn a_raw_stream_is_read_from_a_file_next_to_the_script() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.sse"), "data: 1\n\n").unwrap();
    let path = folder.path().join("script.json");
    fs::write(&path, r#"{"conversations": [{"replies": [{"raw_sse_file": "a.sse"}]}]}"#).unwrap();
    let script = Script::from_file(&path).unwrap();
    assert_eq!(script.conversations[0].replies[0].raw_sse.as_deref(), Some("data: 1\n\n"));
    let missing = Script::from_file(&folder.path().join("none.json")).unwrap_err();
    assert!(missing.to_string().contains("none.json"));
}

#[test]
fn the_first_matching_conversation_is_found_ignoring_case() {
    let text = r#"{"conversations": [{"when": "Main"}, {"when": "read"}, {}]}"#;
    let script = Script::from_json(text).unwrap();
    let found = |user| script.find(user, "").map(|(number, _)| number);
    assert_eq!(["READ MAIN", "read", "x"].map(found), [Some(0), Some(1), Some(2)]);
    assert!(Script::demo().find("x", "").is_none());
}

#[test]
fn a_conversation_can_be_for_one_system_prompt() {
    let text = r#"{"conversations": [{"when": "a", "when_system": "TITLE"}, {"when": "a"}]}"#;
    let script = Script::from_json(text).unwrap();
    let found = |user, system| script.find(user, system).map(|(number, _)| number);
    assert_eq!(found("A", "Write a title."), Some(0));
    assert_eq!(found("A", "Be brief."), Some(1));
    assert_eq!(found("b", "Write a title."), None);
}

#[test]
fn a_repeated_reply_serves_several_rounds() {
    let text = r#"{"conversations": [{"replies": [
        {"model": "a", "repeat": 2}, {"model": "b"}]}]}"#;
    let script = Script::from_json(text).unwrap();
    let model = |round| script.conversations[0].reply(round)?.model.as_deref();
    assert_eq!([0, 1, 2, 3].map(model), [Some("a"), Some("a"), Some("b"), None]);
}

#[test]
fn placeholders_are_replaced_once_and_unknown_ones_stay() {
    let values = Placeholders {
        user: "{{results}}".to_owned(),
        results: vec!["one".to_owned(), "two".to_owned(), r#"{"a":["b",[1]]}"#.to_owned()],
    };
    for (text, filled) in [
        ("a {{result.1}} b {{ result.0 }}", "a two b one"),
        ("{{results}}", "one\n\ntwo\n\n{\"a\":[\"b\",[1]]}"),
        ("{{result.2/a/0}} {{result.2/a/1}}", "b [1]"),
        ("{{result.2/b}}{{result.0/a}}{{result.3/a}}|", "|"),
        ("{{user}}", "{{results}}"),
        ("{{result.3}}|", "|"),
        ("{{other}} {{{user}} {{", "{{other}} {{{user}} {{"),
    ] {
        assert_eq!(values.fill(text), filled);
    }
    let input = json!({ "a": ["{{result.0}}", 1], "b": null });
    assert_eq!(values.fill_value(&input), json!({ "a": ["one", 1], "b": null }));
}

#[test]
fn every_example_of_the_documentation_is_valid() {
    let page = include_str!("../../../../docs/simulator.md");
    let examples: Vec<&str> =
        page.split("```json\n").skip(1).filter_map(|part| part.split("```").next()).collect();
    assert_eq!(examples.len(), 4);
    for example in examples {
        Script::from_json(example).unwrap();
    }
}
