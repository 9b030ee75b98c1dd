//! The OpenAPI document: members of requests and responses.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::openapi::ADAPTERS;

fn document() -> Value {
    serde_json::to_value(twostep::http::document()).unwrap()
}

#[test]
fn content_blocks_have_a_type_and_text_blocks_also_a_text() {
    let document = document();
    let schemas = &document["components"]["schemas"];
    let required = |name: &str| schemas[name]["required"].clone();
    assert_eq!(required("ContentBlock"), json!(["type"]));
    assert_eq!(required("TextBlock"), json!(["type", "text"]));
    let blocks = |owner: &str| {
        let items = &schemas[owner]["properties"]["content"]["items"]["$ref"];
        items.as_str().unwrap().rsplit('/').next().unwrap()
    };
    for owner in ["AgentMessageEvent", "AgentThinkingEvent", "AgentToolResultEvent"] {
        assert_eq!(blocks(owner), "TextBlock", "{owner}");
    }
    for owner in ["HistoryMessage", "UserCustomToolResultEvent", "UserMessageEvent"] {
        assert_eq!(blocks(owner), "ContentBlock", "{owner}");
    }
}

/// The names of the schemas that a part of the document refers to.
fn references(described: &Value) -> Vec<String> {
    let text = described.to_string();
    let after = text.split("\"#/components/schemas/").skip(1);
    after.map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

/// The schemas that no request refers to.
fn schemas_of_responses_only(document: &Value) -> Vec<(&String, &Value)> {
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let paths = document["paths"].as_object().unwrap();
    let operations = paths.values().flat_map(|methods| methods.as_object().unwrap().values());
    let mut next: Vec<String> = operations.flat_map(|it| references(&it["requestBody"])).collect();
    let mut in_requests = BTreeSet::new();
    while let Some(name) = next.pop() {
        if in_requests.insert(name.clone()) {
            next.extend(references(&schemas[&name]));
        }
    }
    schemas.iter().filter(|(name, _)| !in_requests.contains(*name)).collect()
}

fn may_be_null(schema: &Value) -> bool {
    let types = schema["type"].as_array().into_iter().flatten();
    let parts = schema["oneOf"].as_array().into_iter().flatten().map(|part| &part["type"]);
    types.chain(parts).any(|it| it == "null")
}

#[test]
fn an_empty_member_of_a_response_is_always_omitted_or_always_null() {
    let document = document();
    let (mut always_present, mut both) = (Vec::new(), Vec::new());
    for (name, schema) in schemas_of_responses_only(&document) {
        let members = schema["properties"].as_object().into_iter().flat_map(Map::iter);
        for (member, _) in members.filter(|(_, schema)| may_be_null(schema)) {
            let required = schema["required"].as_array().into_iter().flatten();
            let is_required = required.into_iter().any(|it| it == member);
            let found = if is_required { &mut always_present } else { &mut both };
            found.push(format!("{name}.{member}"));
        }
    }
    // The only exception: a removed title is null, and an unchanged title is omitted.
    assert_eq!(both, ["SessionUpdatedEvent.title"]);
    let expected = [
        "CompletionReply.content",
        "CompletionReply.refusal",
        "DeliveryResource.session_id",
        "DeliveryResource.next_attempt_at",
        "DeliveryResource.last_status",
        "DeliveryResource.last_error",
        "DeliveryResource.ended_at",
        "ErrorBody.code",
        "ErrorBody.param",
        "ExplanationResource.waits_for",
        "FileResource.session_id",
        "OpenAiResponse.error",
        "OpenAiResponse.incomplete_details",
        "OpenAiResponse.instructions",
        "OpenAiResponse.max_output_tokens",
        "OpenAiResponse.previous_response_id",
        "OpenAiResponse.temperature",
        "OpenAiResponse.top_p",
        "OpenAiResponse.usage",
        "SessionResource.title",
        "SessionResource.stop_reason",
        "SessionResource.workspace",
        "SessionResource.active_run_id",
        "WebhookResource.description",
        "WebhookResource.disabled",
    ];
    always_present.sort();
    let mut expected = expected.map(str::to_owned);
    expected.sort();
    assert_eq!(always_present, expected);
}

/// The names of all schemas that these parts refer to, directly or indirectly.
fn reached<'a>(document: &'a Value, from: impl Iterator<Item = &'a Value>) -> BTreeSet<String> {
    let mut next: Vec<String> = from.flat_map(references).collect();
    let mut reached = BTreeSet::new();
    while let Some(name) = next.pop() {
        if reached.insert(name.clone()) {
            next.extend(references(&document["components"]["schemas"][&name]));
        }
    }
    reached
}

#[test]
fn schemas_of_requests_are_closed_and_schemas_of_responses_are_open() {
    let document = document();
    let paths = document["paths"].as_object().unwrap().values();
    let operations: Vec<&Value> = paths.flat_map(|it| it.as_object().unwrap().values()).collect();
    let closed = |names: &BTreeSet<String>| -> BTreeSet<String> {
        let is_closed = |name: &&String| {
            let schema = document["components"]["schemas"][name].to_string();
            schema.contains("\"additionalProperties\":false")
        };
        names.iter().filter(is_closed).cloned().collect()
    };
    let deliveries = document["webhooks"]["delivery"]["post"].get("requestBody");
    let responses = operations.iter().map(|operation| &operation["responses"]).chain(deliveries);
    assert_eq!(closed(&reached(&document, responses)), BTreeSet::new());
    // The bodies of all requests, and the schemas inside. Clients of other protocols send members that
    // the service does not use.
    let is_own = |it: &&&Value| !ADAPTERS.iter().any(|tag| it["tags"][0] == *tag);
    let bodies =
        operations.iter().filter(is_own).map(|operation| &operation["requestBody"]["content"]);
    let bodies = bodies.filter(|it| !it.is_null()).map(|it| &it["application/json"]["schema"]);
    let named: BTreeSet<String> = bodies.clone().flat_map(references).collect();
    assert_eq!(closed(&named), named);
    let strict = closed(&reached(&document, bodies));
    for name in ["Limits", "Budget", "Rule", "ClientTool", "SystemBlock", "ModelMetadata"] {
        assert!(strict.contains(name), "{name} is open in requests");
    }
}

/// Collects the schemas that have a default, each with its location.
fn with_default<'a>(place: &str, schema: &'a Value, found: &mut Vec<(String, &'a Value)>) {
    match schema {
        Value::Object(members) => {
            if schema.get("default").is_some()
                && schema.get("type").is_some_and(|it| !it.is_object())
            {
                found.push((place.to_owned(), schema));
            }
            for (name, member) in members {
                with_default(&format!("{place}/{name}"), member, found);
            }
        }
        Value::Array(parts) => {
            for (number, part) in parts.iter().enumerate() {
                with_default(&format!("{place}/{number}"), part, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn a_default_matches_the_type_of_its_member() {
    let document = document();
    let mut found = Vec::new();
    with_default("", &document["components"]["schemas"], &mut found);
    with_default("", &document["paths"], &mut found);
    assert!(!found.is_empty());
    let components = &document["components"];
    for (place, schema) in found {
        let mut whole = schema.clone();
        whole["components"] = components.clone();
        let errors = jsonschema::validator_for(&whole).unwrap();
        assert!(errors.is_valid(&schema["default"]), "{place}: {}", schema["default"]);
    }
}

#[test]
fn each_part_of_a_tagged_union_is_a_named_schema() {
    let document = document();
    for (union, schema) in document["components"]["schemas"].as_object().unwrap() {
        for part in schema["oneOf"].as_array().into_iter().flatten() {
            let parts = part["allOf"].as_array().into_iter().flatten().chain([part]);
            let is_tagged = |part: &Value| part["properties"].get("type").is_some();
            assert!(!parts.into_iter().any(is_tagged), "{union}: {part}");
        }
    }
    let parts = &document["components"]["schemas"]["StopReason"]["oneOf"];
    assert!(parts.as_array().unwrap().contains(&json!({
        "$ref": "#/components/schemas/StopReasonRefusal"
    })));
}
