use serde_json::{Value, json};

use super::{betas, refusal, request, rules, text, user, verdict};
use crate::headers::Version;
use crate::validate::{Endpoint, Rules};

#[test]
fn a_plain_request_is_accepted() {
    assert_eq!(refusal(&request(&json!({}))), "");
    assert_eq!(refusal(&request(&json!({ "system": "be brief", "stream": true }))), "");
    assert_eq!(refusal(&request(&json!({ "system": [text("be brief")] }))), "");
}

#[test]
fn missing_required_fields_are_refused() {
    for field in ["model", "messages", "max_tokens"] {
        let mut body = request(&json!({}));
        body.as_object_mut().unwrap().shift_remove(field);
        assert_eq!(refusal(&body), format!("{field}: Field required"));
    }
    let none = request(&json!({ "messages": [] }));
    assert_eq!(refusal(&none), "messages: at least one message is required");
}

#[test]
fn fields_have_types_and_ranges() {
    for (fields, expected) in [
        (json!({ "max_tokens": "1" }), "max_tokens: Input should be a valid integer"),
        (json!({ "max_tokens": -1 }), "max_tokens: Input should be a valid integer"),
        (json!({ "messages": {} }), "messages: Input should be a valid list"),
        (json!({ "stream": 1 }), "stream: Input should be a valid boolean"),
        (json!({ "system": 1 }), "system: Input should be a valid list"),
        (json!({ "system": [text("")] }), "system: text content blocks must be non-empty"),
        (
            json!({ "max_tokens": 0, "stream": true }),
            "max_tokens: Input should be greater than or equal to 1",
        ),
        (
            json!({ "max_tokens": 200_000 }),
            "max_tokens: 200000 > 128000, which is the maximum allowed number of output tokens \
             for simulator",
        ),
        (json!({ "temperature": 1.5 }), "temperature: range: 0..1"),
    ] {
        assert_eq!(refusal(&request(&fields)), expected);
    }
    for fields in [json!({ "max_tokens": 128_000 }), json!({ "temperature": 0.5 })] {
        assert_eq!(refusal(&request(&fields)), "");
    }
}

#[test]
fn an_unknown_field_is_an_error_unless_the_option_is_off() {
    let lenient = Rules { refuse_unknown_fields: false, ..rules() };
    let beta = Rules { betas: betas("context-management-2025-06-27"), ..rules() };
    let odd = request(&json!({ "session_id": 1 }));
    assert_eq!(refusal(&odd), "session_id: Extra inputs are not permitted");
    assert!(verdict(&odd, &lenient).is_ok());
    let edited = request(&json!({ "context_management": {} }));
    assert_eq!(refusal(&edited), "context_management: Extra inputs are not permitted");
    assert!(verdict(&edited, &beta).is_ok());
    let other = Rules { betas: betas("compact-2026-09-04"), ..rules() };
    let refused = verdict(&edited, &other).unwrap_err();
    assert_eq!(refused.message, "context_management: Extra inputs are not permitted");
    let envelope = request(&json!({
        "messages": [{ "role": "user", "content": "a", "id": "msg_1" }] }));
    assert_eq!(refusal(&envelope), "messages.0.id: Extra inputs are not permitted");
    let block = request(&json!({
        "messages": [user(json!([{ "type": "text", "text": "a", "id": 1 }]))] }));
    assert_eq!(refusal(&block), "messages.0.content.0.text.id: Extra inputs are not permitted");
}

#[test]
fn a_beta_field_needs_its_feature() {
    let all = "fast-mode-2026-02-01,task-budgets-2026-03-13";
    for (field, feature) in [
        ("thread", "message-threads-2026-08-12"),
        ("mcp_servers", "mcp-client-2025-11-20"),
        ("mcp_servers", "mcp-client-2026-09-15"),
        ("fallbacks", "server-side-fallback-2026-07-01"),
        ("fallback_credit_token", "fallback-credit-2026-07-01"),
    ] {
        let body = request(&json!({ field: [] }));
        let refused = verdict(&body, &Rules { betas: betas(all), ..rules() }).unwrap_err();
        assert_eq!(refused.message, format!("{field}: Extra inputs are not permitted"));
        let both = Rules { betas: betas(&format!("{all},{feature}")), ..rules() };
        assert_eq!(verdict(&body, &both), Ok(()), "{field}");
    }
}

#[test]
fn an_unknown_model_is_not_found() {
    let refused = verdict(&request(&json!({ "model": "gpt" })), &rules()).unwrap_err();
    assert_eq!((refused.status.as_u16(), refused.kind), (404, "not_found_error"));
    assert_eq!(refused.message, "model: gpt");
    for model in ["simulator", "simulator-2", "claude-opus-5-5", "claude-3-5-sonnet-20241022"] {
        assert_eq!(refusal(&request(&json!({ "model": model }))), "");
    }
}

#[test]
fn sampling_is_refused_in_the_newer_version_and_on_newer_models() {
    let newer = Rules { version: Version::Y2026, ..rules() };
    for field in ["temperature", "top_p", "top_k"] {
        let on = |model: &str, value: Value| request(&json!({ "model": model, field: value }));
        let refused = verdict(&on("simulator", json!(1)), &newer).unwrap_err();
        assert_eq!(refused.message, format!("{field}: Extra inputs are not permitted"));
        let expected = format!("`{field}` is deprecated for this model.");
        for model in ["claude-opus-4-7", "claude-haiku-5-5", "claude-sonnet-5"] {
            assert_eq!(refusal(&on(model, json!(0))), expected);
        }
        for model in ["claude-opus-4-6", "claude-sonnet-4-20250514", "simulator"] {
            assert_eq!(refusal(&on(model, json!(0))), "");
        }
    }
    let default = request(&json!({ "model": "claude-opus-5", "temperature": 1.0 }));
    assert_eq!(refusal(&default), "");
}

#[test]
fn sampling_is_limited_on_models_that_take_it() {
    let both =
        "`temperature` and `top_p` cannot both be specified for this model. Please use only one.";
    let body = |model: &str| request(&json!({ "model": model, "temperature": 0.5, "top_p": 0.9 }));
    for (model, expected) in [("claude-opus-4-6", both), ("simulator", "")] {
        assert_eq!(refusal(&body(model)), expected);
    }
    for (field, value, expected) in [
        (
            "temperature",
            json!(0.5),
            "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode.",
        ),
        ("temperature", json!(1), ""),
        (
            "top_p",
            json!(0.9),
            "`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled.",
        ),
        ("top_p", json!(0.95), ""),
        ("top_k", json!(5), "`top_k` must be unset when thinking is enabled."),
    ] {
        let body = json!({ "thinking": { "type": "adaptive" }, field: value });
        assert_eq!(refusal(&request(&body)), expected, "{field}");
    }
}

#[test]
fn models_differ_in_their_thinking_types() {
    let adaptive = "adaptive thinking is not supported on this model";
    let enabled = "\"thinking.type.enabled\" is not supported for this model. Use \
                   \"thinking.type.adaptive\" and \"output_config.effort\" to control thinking \
                   behavior.";
    let disabled = "\"thinking.type.disabled\" is not supported for this model. Thinking defaults \
                    to adaptive mode when not specified; use \"output_config.effort\" to control \
                    thinking behavior.";
    let between = "\"thinking.type.between_tools\" is not supported for this model.";
    for (model, expected) in [
        ("simulator", ["", "", "", ""]),
        ("claude-haiku-4-5", [adaptive, "", "", between]),
        ("claude-opus-4-6", ["", "", "", between]),
        ("claude-opus-4-8", ["", enabled, "", between]),
        ("claude-opus-5", ["", enabled, "", between]),
        ("claude-opus-5-5", ["", enabled, disabled, between]),
        ("claude-sonnet-5-5", ["", enabled, disabled, ""]),
        ("claude-haiku-5-5", ["", enabled, "", between]),
        ("claude-fable-5", ["", enabled, disabled, between]),
    ] {
        for (kind, expected) in
            ["adaptive", "enabled", "disabled", "between_tools"].into_iter().zip(expected)
        {
            let mut setting = json!({ "type": kind });
            if kind == "enabled" {
                setting["budget_tokens"] = json!(1024);
            }
            let body = request(&json!({ "model": model, "max_tokens": 2000, "thinking": setting }));
            assert_eq!(refusal(&body), expected, "{model} {kind}");
        }
    }
}

#[test]
fn a_thinking_budget_is_in_range() {
    let thinking =
        |setting: Value| refusal(&request(&json!({ "max_tokens": 1024, "thinking": setting })));
    let required = "thinking.enabled.budget_tokens: Field required";
    assert_eq!(thinking(json!({ "type": "enabled" })), required);
    let least = "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024";
    assert_eq!(thinking(json!({ "type": "enabled", "budget_tokens": 1023 })), least);
    let most = "`max_tokens` must be greater than `thinking.budget_tokens`.";
    assert_eq!(thinking(json!({ "type": "enabled", "budget_tokens": 1024 })), most);
    assert_eq!(thinking(json!({})), "thinking.type: Field required");
    assert!(thinking(json!({ "type": "deep" })).starts_with("thinking: Input tag 'deep' found"));
}

#[test]
fn a_prompt_over_the_window_is_too_long() {
    let rules = Rules { max_input_tokens: 200_000, tokens: 208_310, ..rules() };
    let refused = verdict(&request(&json!({})), &rules).unwrap_err();
    assert_eq!(refused.message, "prompt is too long: 208310 tokens > 200000 maximum");
    assert!(verdict(&request(&json!({})), &Rules { tokens: 200_000, ..rules }).is_ok());
}

#[test]
fn counting_tokens_needs_no_max_tokens() {
    let rules = Rules { endpoint: Endpoint::CountTokens, ..rules() };
    let mut body = request(&json!({}));
    let refused = verdict(&body, &rules).unwrap_err();
    assert_eq!(refused.message, "max_tokens: Extra inputs are not permitted");
    body.as_object_mut().unwrap().shift_remove("max_tokens");
    assert!(verdict(&body, &rules).is_ok());
}
