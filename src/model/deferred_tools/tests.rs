use serde_json::json;

use super::*;
use crate::domain::deferred_tools::DeferredTools as Pinned;
use crate::domain::prompt_cache::CacheTtl;
use crate::domain::provider::{Dialect, MaxTokensField};
use crate::domain::tool::ToolChoice;
use crate::model::{Head, Messages, anthropic, openai};

const DIALECT: Dialect =
    Dialect { max_tokens_field: MaxTokensField::MaxTokens, takes_images: true };

fn definition(name: &str) -> Value {
    json!({ "name": name, "description": format!("Does {name}."),
            "input_schema": { "type": "object" } })
}

/// Settings with the tools `a`, `b` (deferred), `c` (deferred) and `ToolSearch`.
fn settings(by_reference: bool) -> Settings {
    let tools = ["a", "b", "c", "ToolSearch"].map(definition);
    let names = ["b", "c"].map(str::to_owned).to_vec();
    let mut settings = Settings {
        model: "m".to_owned(),
        tools: to_raw_value(&tools).unwrap(),
        deferred_tools: Some(Box::new(Pinned { names, by_reference })),
        ..Settings::default()
    };
    let extra = json!({ "extra": [{ "b": "]}" }] });
    settings.model_options.generation.extra_body = Some(to_raw_value(&extra).unwrap());
    settings
}

const ASKED: &str =
    r#"{"role":"user","content":[{"type":"text","text":"say \"tool_reference\""}]}"#;

/// A history in which `ToolSearch` finds these tools, with one call each.
fn history(found: &[&str]) -> String {
    let mut text = ASKED.to_owned();
    for (index, name) in found.iter().enumerate() {
        let id = format!("toolu_{index}");
        let call = json!({ "type": "tool_use", "id": id, "name": "ToolSearch", "input": {} });
        let references = format!(r#"[{REFERENCE}{name}"}}]"#);
        let _ = write!(
            text,
            r#",{{"role":"assistant","content":[{call}]}},{{"role":"user","content":[{{"#
        );
        let _ = write!(
            text,
            r#""type":"tool_result","tool_use_id":"{id}","content":{references}}}]}}"#
        );
    }
    text
}

fn anthropic_body(settings: &Settings, text: &str, far_breakpoint: Option<usize>) -> String {
    let more = to_raw_value(&[definition("mine")]).unwrap();
    let head =
        anthropic::Head::new(settings, Some(&more), Some(CacheTtl::FiveMinutes), None).unwrap();
    let messages = Messages { text, far_breakpoint, is_compacted: false, container: None };
    let body = anthropic::body(&head, messages, &ToolChoice::AUTO);
    String::from_utf8(body.to_vec()).unwrap()
}

fn tools_of(body: &str) -> Vec<Value> {
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["extra"], json!([{ "b": "]}" }]));
    body["tools"].as_array().unwrap().clone()
}

#[test]
fn a_server_with_tool_search_gets_all_definitions_and_the_references() {
    let settings = settings(true);
    let text = history(&["c", "b"]);
    let body = anthropic_body(&settings, &text, None);
    let mut deferred = ["b", "c"].map(definition);
    for tool in &mut deferred {
        tool["defer_loading"] = json!(true);
    }
    let mut search = definition("ToolSearch");
    // The API allows no breakpoint in a deferred tool.
    search["cache_control"] = json!({ "type": "ephemeral" });
    let [b, c] = deferred;
    assert_eq!(tools_of(&body), [definition("a"), search, b, c, definition("mine")]);
    assert!(body.contains(&text));
    // A found tool changes nothing before it.
    let earlier = anthropic_body(&settings, &history(&["c"]), None);
    let shared = earlier.len() - "]}".len();
    assert_eq!(body.get(..shared), earlier.get(..shared));
}

#[test]
fn other_servers_get_texts_and_the_found_definitions_at_the_end() {
    let settings = settings(false);
    for (found, names) in [
        (&[][..], &["a", "ToolSearch", "mine"][..]),
        (&["c"], &["a", "ToolSearch", "mine", "c"]),
        (&["c", "b", "c"], &["a", "ToolSearch", "mine", "c", "b"]),
        (&["unknown", "b"], &["a", "ToolSearch", "mine", "b"]),
    ] {
        // A breakpoint in messages that are sent in another form is left out.
        let far_breakpoint = (!found.is_empty()).then_some(10);
        let body = anthropic_body(&settings, &history(found), far_breakpoint);
        let tools = tools_of(&body);
        let offered: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(offered, names);
        assert!(!body.contains("defer_loading") && !body.contains(REFERENCE), "{body}");
        let body: Value = serde_json::from_str(&body).unwrap();
        for (index, name) in found.iter().enumerate() {
            let text = match *name {
                "unknown" => "unknown: not available any more".to_owned(),
                name => format!("{name}: Does {name}.\nInput schema: {{\"type\":\"object\"}}"),
            };
            let result = &body["messages"][2 * index + 2]["content"][0]["content"];
            assert_eq!(*result, json!([{ "type": "text", "text": text }]));
        }
    }
}

#[test]
fn chat_completions_has_no_references() {
    for by_reference in [true, false] {
        let settings = settings(by_reference);
        let head = openai::Head::new(&settings, None, DIALECT).unwrap();
        let body = openai::body(&head, &history(&["c"]), &ToolChoice::AUTO);
        let body = std::str::from_utf8(&body).unwrap();
        let functions: Vec<Value> =
            tools_of(body).into_iter().map(|mut tool| tool["function"]["name"].take()).collect();
        assert_eq!(functions, ["a", "ToolSearch", "c"]);
        let head = Head::OpenAi(head);
        assert_eq!(head.found_tools(&history(&["c"])), ["c"]);
        assert_eq!(head.unread_bytes(&history(&["c"])), 0);
        let body: Value = serde_json::from_str(body).unwrap();
        let result = body["messages"].as_array().unwrap().last().unwrap();
        assert_eq!(result["content"], "c: Does c.\nInput schema: {\"type\":\"object\"}");
    }
}

#[test]
fn deferred_definitions_are_not_read_until_a_reference_inserts_them() {
    let (tools, _) = DeferredTools::of(&settings(true)).unwrap().unwrap();
    let one = i64::try_from(definition("b").to_string().len()).unwrap();
    assert_eq!(tools.unread_bytes(ASKED), 2 * one);
    assert_eq!(tools.unread_bytes(&history(&["c"])), one);
    assert_eq!(tools.unread_bytes(&history(&["c", "b", "c"])), -one);
    assert_eq!(tools.without_references().unread_bytes(ASKED), 0);
}
