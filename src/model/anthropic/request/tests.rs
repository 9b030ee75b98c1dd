use serde_json::value::RawValue;

use super::*;
use crate::domain::context::Context;
use crate::domain::prompt_cache::CacheTtl;
use crate::domain::session::Settings;
use crate::domain::system::SystemPrompt;

fn settings() -> Settings {
    Settings {
        model: "claude-test".into(),
        max_tokens: 100,
        system: "Be brief.".into(),
        tools: RawValue::from_string(r#"[{"name":  "f"}]"#.into()).unwrap(),
        ..Settings::default()
    }
}

fn whole(text: &str) -> Messages<'_> {
    Messages { text, far_breakpoint: None, is_compacted: false, container: None }
}

const FIVE: Option<CacheTtl> = Some(CacheTtl::FiveMinutes);

#[test]
fn a_body_consists_of_head_messages_and_tool_choice() {
    let head = Head::new(&settings(), None, FIVE, None).unwrap();
    let choice = ToolChoice::Tool { name: "f".into(), disable_parallel_tool_use: None };
    let expected = concat!(
        r#"{"model":"claude-test","max_tokens":100,"stream":true,"#,
        r#""cache_control":{"type":"ephemeral"},"#,
        r#""system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],"#,
        r#""tools":[{"name":  "f","cache_control":{"type":"ephemeral"}}],"#,
        r#""messages":[{"role":"user","content":[]}],"#,
        r#""tool_choice":{"type":"tool","name":"f"}}"#,
    );
    assert_eq!(body(&head, whole(r#"{"role":"user","content":[]}"#), &choice), expected);
}

#[test]
fn unset_options_are_not_sent() {
    let mut settings = settings();
    settings.system = SystemPrompt::default();
    settings.tools = RawValue::from_string("[]".into()).unwrap();
    let head = Head::new(&settings, None, None, None).unwrap();
    let expected = r#"{"model":"claude-test","max_tokens":100,"stream":true,"messages":[]}"#;
    assert_eq!(body(&head, whole(""), &ToolChoice::AUTO), expected);
}

#[test]
fn without_a_system_prompt_the_tools_carry_the_breakpoint_with_the_same_ttl() {
    let mut settings = settings();
    settings.system = SystemPrompt::default();
    let head = Head::new(&settings, None, Some(CacheTtl::Hour), None).unwrap();
    let expected = concat!(
        r#"{"model":"claude-test","max_tokens":100,"stream":true,"#,
        r#""cache_control":{"type":"ephemeral","ttl":"1h"},"tools":[{"name":  "f","#,
        r#""cache_control":{"type":"ephemeral","ttl":"1h"}}],"messages":[]}"#,
    );
    assert_eq!(body(&head, whole(""), &ToolChoice::AUTO), expected);
}

#[test]
fn the_far_breakpoint_is_inserted_into_its_block_only_when_caching_is_on() {
    let text = r#"{"role":"user","content":[{"type":"text"}]},{"more":1}"#;
    let far_breakpoint = text.find("}]}");
    let ends = |cache: Option<CacheTtl>, messages: &str| {
        let head = Head::new(&settings(), None, cache, None).unwrap();
        let body = body(
            &head,
            Messages { text, far_breakpoint, is_compacted: false, container: None },
            &ToolChoice::AUTO,
        );
        let end = format!(r#""messages":[{messages}]}}"#);
        assert!(body.ends_with(end.as_bytes()), "{body:?}");
    };
    ends(None, text);
    let mark = r#"{"type":"text","cache_control":{"type":"ephemeral"}}"#;
    ends(FIVE, &text.replace(r#"{"type":"text"}"#, mark));
}

#[test]
fn model_options_are_sent_with_their_exact_text() {
    let mut settings = settings();
    settings.system = serde_json::from_str(r#"[{"type":"text",  "text":"a"}]"#).unwrap();
    settings.model_options = serde_json::from_str(
        r#"{"effort":"xhigh","service_tier":"standard_only","user_id":"u-1",
            "output_schema":{"type" : "object"},"betas":["b-2","a-1"]}"#,
    )
    .unwrap();
    let head = Head::new(&settings, None, None, None).unwrap();
    let expected = concat!(
        r#"{"model":"claude-test","max_tokens":100,"stream":true,"#,
        r#""output_config":{"effort":"xhigh","#,
        r#""format":{"type":"json_schema","schema":{"type" : "object"}}},"#,
        r#""metadata":{"user_id":"u-1"},"service_tier":"standard_only","#,
        r#""system":[{"type":"text",  "text":"a"}],"tools":[{"name":  "f"}],"messages":[]}"#,
    );
    assert_eq!(body(&head, whole(""), &ToolChoice::AUTO), expected);
    assert_eq!(head.betas(false).as_ref(), "b-2,a-1");
}

#[test]
fn sessions_stored_by_earlier_versions_send_the_same_bytes_as_before() {
    let stored = concat!(
        r#"{"model":"m","max_tokens":9,"system":"Say \"é\".\n","tools":[{"name":"f"}],"#,
        r#""thinking":{"type":"adaptive"},"stop_sequences":["END"],"limits":{}}"#,
    );
    let settings: Settings = serde_json::from_str(stored).unwrap();
    let head = Head::new(&settings, None, None, None).unwrap();
    let expected = concat!(
        r#"{"model":"m","max_tokens":9,"stream":true,"#,
        r#""thinking":{"type":"adaptive"},"stop_sequences":["END"],"system":"Say \"é\".\n","#,
        r#""tools":[{"name":"f"}],"messages":[]}"#,
    );
    assert_eq!(body(&head, whole(""), &ToolChoice::AUTO), expected);
    assert_eq!(head.betas(false).as_ref(), "");
    assert_eq!(serde_json::to_string(&settings).unwrap(), stored);
}

#[test]
fn tools_of_the_run_follow_those_of_the_session() {
    let more = RawValue::from_string(r#"[{"name":"g", "x":1e3}]"#.into()).unwrap();
    let head = Head::new(&settings(), Some(&more), None, None).unwrap();
    let body = body(&head, whole(""), &ToolChoice::AUTO);
    let expected = br#""tools":[{"name":  "f"},{"name":"g", "x":1e3}],"messages":"#;
    assert!(body.windows(expected.len()).any(|part| part == expected), "{body:?}");

    // The breakpoint stays where other requests of the session have it.
    let head = Head::new(&settings(), Some(&more), FIVE, None).unwrap();
    let body = super::body(&head, whole(""), &ToolChoice::AUTO);
    let expected = br#"{"name":  "f","cache_control":{"type":"ephemeral"}},{"name":"g", "x":1e3}]"#;
    assert!(body.windows(expected.len()).any(|part| part == expected), "{body:?}");
}

#[test]
fn a_request_is_a_byte_prefix_of_the_next() {
    let head = Head::new(&settings(), None, FIVE, None).unwrap();
    let first = body(&head, whole(r#"{"a":1}"#), &ToolChoice::AUTO);
    let second = body(&head, whole(r#"{"a":1},{"b":2}"#), &ToolChoice::None);
    let open = first.strip_suffix(b"]}").unwrap();
    assert!(second.starts_with(open));
}

fn edits(edits: &str) -> Context {
    let edits = Some(RawValue::from_string(edits.to_owned()).unwrap());
    Context { edits, ..Context::default() }
}

#[test]
fn context_edits_are_sent_as_pinned_and_add_their_beta_features() {
    for (pinned, betas) in [
        (r#"[{"type":"clear_tool_uses_20250919"}]"#, "b,context-management-2025-06-27"),
        (r#"[{"type": "compact_20260112"}]"#, "b,compact-2026-01-12"),
        (
            r#"[{"type":"clear_thinking_20251015","keep":"all"},{"type":"compact_20260112"}]"#,
            "b,context-management-2025-06-27,compact-2026-01-12",
        ),
    ] {
        let mut settings = settings();
        settings.model_options.betas = vec!["b".to_owned()];
        *settings.context = edits(pinned);
        let head = Head::new(&settings, None, None, None).unwrap();
        let expected = format!(
            r#"{{"model":"claude-test","max_tokens":100,"stream":true,"context_management":{{"edits":{pinned}}},"system":"Be brief.","tools":[{{"name":  "f"}}],"messages":[]}}"#
        );
        assert_eq!(body(&head, whole(""), &ToolChoice::AUTO), expected);
        assert_eq!(head.betas(false).as_ref(), betas);
        assert_eq!(head.betas(true).as_ref(), format!("{betas},compact-2026-09-04"));
    }
}

fn shaped() -> Settings {
    let mut settings = settings();
    settings.stop_sequences = vec!["END".to_owned()];
    settings.model_options =
        serde_json::from_str(r#"{"effort":"low","user_id":"u","output_schema":{"type":"object"}}"#)
            .unwrap();
    *settings.context = edits(r#"[{"type":"clear_tool_uses_20250919"}]"#);
    settings
}

#[test]
fn a_summary_request_omits_the_options_that_shape_an_answer() {
    let mut settings = shaped();
    settings.context.compact_instructions = Some("Keep \"names\".".to_owned());
    let head = Head::for_summary(&settings.for_summary(), None, None, None).unwrap();
    let expected = concat!(
        r#"{"model":"claude-test","max_tokens":16384,"stream":true,"#,
        r#""output_config":{"effort":"low"},"metadata":{"user_id":"u"},"system":"Be brief.","tools":[{"name":  "f"}],"#,
        r#""messages":[{}],"#,
        r#""compaction":{"type":"summarize","instructions":"Keep \"names\"."}}"#,
    );
    assert_eq!(body(&head, whole("{}"), &ToolChoice::AUTO), expected);
    assert_eq!(head.betas(false).as_ref(), "compact-2026-09-04");
}

#[test]
fn a_count_request_has_only_the_parts_of_the_prompt() {
    let head = Head::for_count(&shaped(), None, None).unwrap();
    let expected = concat!(
        r#"{"model":"claude-test","#,
        r#""output_config":{"effort":"low","format":{"type":"json_schema","#,
        r#""schema":{"type":"object"}}},"#,
        r#""system":"Be brief.","tools":[{"name":  "f"}],"messages":[{}]}"#,
    );
    assert_eq!(body(&head, whole("{}"), &ToolChoice::AUTO), expected);
}
