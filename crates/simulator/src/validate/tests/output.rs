use serde_json::{Value, json};

use super::{betas, refusal, request, rules, verdict};
use crate::validate::Rules;

/// The refusal of a request with these fields, for this model.
fn on(model: &str, mut fields: Value) -> String {
    fields["model"] = model.into();
    refusal(&request(&fields))
}

fn config(config: &Value) -> String {
    on("simulator", json!({ "output_config": config }))
}

fn schema(schema: &Value) -> String {
    config(&json!({ "format": { "type": "json_schema", "schema": schema } }))
}

#[test]
fn small_settings_have_types_and_values() {
    for (fields, expected) in [
        (json!({ "metadata": { "user_id": "u" } }), ""),
        (json!({ "metadata": { "user_id": null } }), ""),
        (json!({ "metadata": { "name": "Ada" } }), "metadata.name: Extra inputs are not permitted"),
        (
            json!({ "metadata": { "user_id": 1 } }),
            "metadata.user_id: Input should be a valid string",
        ),
        (
            json!({ "metadata": { "user_id": "u".repeat(257) } }),
            "metadata.user_id: String should have at most 256 characters",
        ),
        (json!({ "service_tier": "auto" }), ""),
        (
            json!({ "service_tier": "priority" }),
            "service_tier: Input should be 'auto' or 'standard_only'",
        ),
        (json!({ "stop_sequences": ["a", 1] }), "stop_sequences.1: Input should be a valid string"),
        (
            json!({ "stop_sequences": ["\n"] }),
            "stop_sequences: each stop sequence must contain non-whitespace",
        ),
    ] {
        assert_eq!(on("simulator", fields), expected);
    }
}

#[test]
fn models_differ_in_their_efforts() {
    let none = "This model does not support the effort parameter.";
    let no_max = "This model does not support effort level 'max'.";
    let no_xhigh = "This model does not support effort level 'xhigh'.";
    for (model, expected) in [
        ("simulator", ["", "", ""]),
        ("claude-haiku-4-5", [none, none, none]),
        ("claude-sonnet-4-5", [none, none, none]),
        ("claude-opus-4-5", ["", no_xhigh, no_max]),
        ("claude-opus-4-6", ["", no_xhigh, ""]),
        ("claude-sonnet-4-6", ["", no_xhigh, ""]),
        ("claude-mythos-preview", ["", no_xhigh, ""]),
        ("claude-opus-4-7", ["", "", ""]),
        ("claude-haiku-5-5", ["", "", ""]),
        ("claude-fable-5-2", ["", "", ""]),
    ] {
        for (level, expected) in ["high", "xhigh", "max"].into_iter().zip(expected) {
            let fields = json!({ "output_config": { "effort": level } });
            assert_eq!(on(model, fields), expected, "{model} {level}");
        }
    }
    assert_eq!(
        config(&json!({ "effort": "huge" })),
        "output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'"
    );
}

#[test]
fn some_models_cannot_disable_thinking_at_the_highest_efforts() {
    let disabled = |effort: &str| json!({ "thinking": { "type": "disabled" }, "output_config": { "effort": effort } });
    let refused = "\"thinking.type.disabled\" is not supported for this model with effort 'xhigh'.";
    for (model, expected) in
        [("claude-opus-5", refused), ("claude-haiku-5-5", refused), ("claude-opus-4-8", "")]
    {
        assert_eq!(on(model, disabled("high")), "");
        assert_eq!(on(model, disabled("xhigh")), expected, "{model}");
    }
}

#[test]
fn a_format_has_a_schema_that_a_grammar_can_express() {
    let beta = Rules { betas: betas("task-budgets-2026-03-13"), ..rules() };
    let budget = json!({ "output_config": { "task_budget": {} } });
    assert_eq!(
        refusal(&request(&budget)),
        "output_config.task_budget: Extra inputs are not permitted"
    );
    assert!(verdict(&request(&budget), &beta).is_ok());
    let type_of = |kind: &str| config(&json!({ "format": { "type": kind, "schema": {} } }));
    assert_eq!(type_of("json_schema"), "");
    assert_eq!(type_of("json"), "output_config.format.type: Input should be 'json_schema'");
    let bare = config(&json!({ "format": { "type": "json_schema" } }));
    assert_eq!(bare, "output_config.format.schema: Field required");
    let old = json!({ "output_config": { "format": { "type": "json_schema", "schema": {} } } });
    assert_eq!(
        on("claude-sonnet-4-20250514", old),
        "output_config.format: structured outputs are not supported for this model."
    );
    let open = "output_config.format.schema: For 'object' type, 'additionalProperties' must be \
                explicitly set to false";
    let object = |properties: Value| json!({ "type": "object", "properties": properties, "additionalProperties": false });
    assert_eq!(schema(&object(json!({ "minimum": { "type": "integer" } }))), "");
    assert_eq!(schema(&json!({ "type": "object" })), open);
    assert_eq!(schema(&object(json!({ "a": { "type": "object" } }))), open);
    assert_eq!(
        schema(&json!({ "type": "array", "items": { "type": "integer", "minimum": 1 } })),
        "output_config.format.schema: For 'integer' type, property 'minimum' is not supported"
    );
}
