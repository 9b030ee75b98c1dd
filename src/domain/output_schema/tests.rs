use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use super::*;

#[expect(clippy::needless_pass_by_value, reason = "callers write the properties in place")]
fn object(properties: Value) -> Value {
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// Returns the pointer and the reason of the first violation; empty for a supported schema.
fn wrong(schema: &Value) -> (String, String) {
    unsupported_part(schema, true)
        .map(|UnsupportedPart { pointer, reason }| (pointer, reason))
        .unwrap_or_default()
}

#[test]
fn supported_schemas_are_accepted() {
    for schema in [
        object(json!({})),
        object(json!({ "a": { "type": ["string", "null"] }, "b": { "enum": [1, "x", null] } })),
        object(json!({ "list": { "type": "array", "items": object(json!({})), "minItems": 1 } })),
        object(json!({ "when": { "type": "string", "format": "date-time" } })),
        object(json!({ "code": { "type": "string", "pattern": "^[A-Z]{3}-[0-9]+$" } })),
        json!({ "$ref": "#/$defs/a", "$defs": { "a": object(json!({})) } }),
        json!({ "anyOf": [{ "type": "string" }, { "type": "integer" }] }),
    ] {
        assert_eq!(wrong(&schema), (String::new(), String::new()), "{schema}");
    }
}

#[test]
fn violations_are_named_by_pointer() {
    let many = |count: usize, property: Value| {
        object((0..count).map(|n| (format!("p{n}"), property.clone())).collect())
    };
    for (schema, pointer, reason) in [
        (json!(true), "", "is not an object"),
        (json!({ "type": "object" }), "/additionalProperties", "is not false"),
        (
            json!({ "type": "array", "items": { "properties": {} } }),
            "/items/additionalProperties",
            "is not false",
        ),
        (
            object(json!({ "a/b": { "type": "integer", "minimum": 1 } })),
            "/properties/a~1b/minimum",
            "is not supported",
        ),
        (json!({ "type": "string", "maxLength": 3 }), "/maxLength", "is not supported"),
        (
            json!({ "anyOf": [{ "enum": [[1]] }] }),
            "/anyOf/0/enum",
            "has a value that is an array or an object",
        ),
        (json!({ "type": "array", "minItems": 2 }), "/minItems", "is not 0 or 1"),
        (
            json!({ "type": "string", "pattern": "(?=a)" }),
            "/pattern",
            "looks around or back, which is not supported",
        ),
        (json!({ "$ref": "https://example.org/a" }), "/$ref", "leads out of the schema"),
        (json!({ "$ref": "#/$defs/a" }), "/$ref", "leads nowhere"),
        (
            json!({ "$ref": "#/$defs/a", "$defs": { "a": { "items": { "$ref": "#/$defs/a" } } } }),
            "/$ref/items/$ref",
            "leads back to itself",
        ),
        (many(25, json!({})), "", "has more than 24 members that are optional"),
        (
            json!({ "allOf": vec![json!({ "type": ["string", "null"] }); 17] }),
            "",
            "has more than 16 members with several types",
        ),
    ] {
        assert_eq!(wrong(&schema), (pointer.to_owned(), reason.to_owned()), "{schema}");
    }
    assert_eq!(wrong(&json!({ "type": "string", "format": "regex" })).0, "/format");
    assert!(wrong(&json!({ "type": "text" })).1.contains("text"));
}

#[test]
fn patterns_with_lookaround_or_back_references_are_refused() {
    let is_taken = |pattern: &str| wrong(&json!({ "type": "string", "pattern": pattern })).0;
    for pattern in [r"^(?:a|b)\d{2}$", r"\(?=", r"\\b", "[a-z]+"] {
        assert_eq!(is_taken(pattern), "", "{pattern}");
    }
    for pattern in ["(?!a)", "(?<=a)b", "(?>a)", r"(a)\1", r"\ba", r"\\(?=a)", "(?i)a"] {
        assert_eq!(is_taken(pattern), "/pattern", "{pattern}");
    }
}

#[test]
fn a_small_schema_that_expands_to_a_large_one_is_refused() {
    let twice = |next: usize| {
        let next = json!({ "$ref": format!("#/$defs/d{next}") });
        json!({ "allOf": [next, next] })
    };
    let chain = |length: usize, step: &dyn Fn(usize) -> Value| {
        let mut defs: serde_json::Map<String, Value> =
            (0..length).map(|n| (format!("d{n}"), step(n + 1))).collect();
        defs.insert(format!("d{length}"), json!({ "type": "string" }));
        json!({ "$ref": "#/$defs/d0", "$defs": defs })
    };
    assert_eq!(wrong(&chain(30, &twice)).1, "has more than 2000 places");
    let once = |next: usize| json!({ "$ref": format!("#/$defs/d{next}") });
    assert_eq!(wrong(&chain(31, &once)).1, "");
    assert_eq!(wrong(&chain(32, &once)).1, "is reached by more than 32 references");
}

#[test]
fn an_invalid_answer_has_a_reason() {
    let schema = object(json!({ "name": { "type": "string" } }));
    let schema = to_raw_value(&schema).unwrap();
    let error = |answer: &str| {
        let verdict = OutputVerdict::of(&schema, answer);
        verdict.error().map(|error| (error.r#type, error.pointer.clone()))
    };
    assert_eq!(error(r#" {"name": "Ada"} "#), None);
    assert_eq!(error(" \n"), Some((OutputErrorType::NoAnswer, None)));
    assert_eq!(error(r#"{"name": "Ad"#), Some((OutputErrorType::NotJson, None)));
    let mismatch = |pointer: &str| Some((OutputErrorType::SchemaMismatch, Some(pointer.into())));
    assert_eq!(error(r#"{"name": 1}"#), mismatch("/name"));
    assert_eq!(error(r#"{"age": 1}"#), mismatch(""));
}

#[test]
fn a_provider_may_require_every_member() {
    let point = |required: &[&str]| {
        let mut point = object(json!({ "x": { "type": "integer" }, "y": { "type": "integer" } }));
        point["required"] = json!(required);
        point
    };
    let list = |required: &[&str]| json!({ "type": "array", "items": point(required) });
    assert_eq!(unsupported_part(&list(&["x", "y"]), false), None);
    assert_eq!(unsupported_part(&list(&["x"]), true), None);
    let expected = UnsupportedPart {
        pointer: "/items/required".to_owned(),
        reason: "does not name \"y\": the model's server insists on every member".to_owned(),
    };
    assert_eq!(unsupported_part(&list(&["x"]), false), Some(expected));
}
