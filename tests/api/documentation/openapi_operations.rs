//! The OpenAPI document: operations are complete, and examples match their schemas.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value, json};

fn document() -> Value {
    serde_json::to_value(twostep::http::document()).unwrap()
}

/// The description itself, or the one that its reference leads to.
fn resolve<'a>(document: &'a Value, described: &'a Value) -> &'a Value {
    match described["$ref"].as_str() {
        Some(path) => {
            let target = document.pointer(path.strip_prefix('#').unwrap());
            resolve(document, target.unwrap_or_else(|| panic!("{path} does not exist")))
        }
        None => described,
    }
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

/// Every operation, by its id.
fn operations(document: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let paths = members(&document["paths"]).flat_map(|(_, methods)| members(methods));
    paths.map(|(_, operation)| (operation["operationId"].as_str().unwrap(), operation))
}

/// Every response of every operation: id of the operation, status, response.
fn responses(document: &Value) -> impl Iterator<Item = (&str, &str, &Value)> {
    operations(document).flat_map(move |(name, operation)| {
        members(&operation["responses"])
            .map(move |(status, response)| (name, status.as_str(), resolve(document, response)))
    })
}

/// Every body of requests and responses, each with its location.
fn bodies(document: &Value) -> Vec<(String, &Value)> {
    let mut bodies = Vec::new();
    for (name, operation) in operations(document) {
        for (kind, content) in members(&operation["requestBody"]["content"]) {
            bodies.push((format!("{name} {kind}"), content));
        }
    }
    for (name, status, response) in responses(document) {
        // The bytes of files have no example.
        let is_file = name.ends_with("_file_content") && status == "200";
        for (kind, content) in members(&response["content"]).filter(|_| !is_file) {
            bodies.push((format!("{name} {status} {kind}"), content));
        }
    }
    bodies
}

/// The errors of an example that does not match its schema.
fn schema_errors(document: &Value, schema: &Value, example: &Value) -> Vec<String> {
    let mut schema = schema.clone();
    schema["components"] = document["components"].clone();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors = validator.iter_errors(example);
    errors.map(|error| format!("{}: {error}", error.instance_path())).collect()
}

#[test]
fn every_body_has_an_example_that_matches_its_schema() {
    let document = document();
    for (location, content) in bodies(&document) {
        let one = content.get("example");
        let several = members(&content["examples"]).map(|(_, it)| &resolve(&document, it)["value"]);
        let examples: Vec<&Value> = one.into_iter().chain(several).collect();
        assert_ne!(examples, Vec::<&Value>::new(), "{location} has no example");
        for example in examples {
            let errors = schema_errors(&document, &content["schema"], example);
            assert_eq!(errors, Vec::<String>::new(), "{location}: {example}");
        }
    }
}

#[test]
fn every_parameter_is_described_and_its_example_matches_its_schema() {
    let document = document();
    for (name, operation) in operations(&document) {
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let parameter = resolve(&document, parameter);
            let location = format!("{name} {}", parameter["name"]);
            assert!(parameter["description"].is_string(), "{location} is not described");
            let listed = parameter["schema"]["examples"].as_array().into_iter().flatten();
            for example in parameter.get("example").into_iter().chain(listed) {
                let errors = schema_errors(&document, &parameter["schema"], example);
                assert_eq!(errors, Vec::<String>::new(), "{location}: {example}");
            }
        }
    }
}

/// The error codes in the source of `http::error`.
fn codes_of_the_source() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http/error");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let source: String = files.map(|file| std::fs::read_to_string(file).unwrap()).collect();
    let after = source.split("StatusCode::").skip(1);
    let pairs = after.filter_map(|text| text.split_once(", \""));
    let pairs = pairs
        .filter(|(status, _)| status.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_'));
    pairs.map(|(_, rest)| rest.split('"').next().unwrap().to_owned()).collect()
}

#[test]
fn the_documented_error_codes_are_the_codes_of_the_source() {
    let document = document();
    let codes = &document["components"]["schemas"]["Problem"]["properties"]["code"]["enum"];
    let codes: BTreeSet<String> = serde_json::from_value(codes.clone()).unwrap();
    assert_eq!(codes, codes_of_the_source());
    // Each code has an example in the responses that have it, with the status of the response.
    let of_any_route = ["method_not_allowed", "route_not_found"];
    // The only routes that have it respond in the format of another protocol.
    let of_other_formats = ["environment_not_found"];
    let mut shown: BTreeSet<String> =
        of_any_route.into_iter().chain(of_other_formats).map(str::to_owned).collect();
    for (name, status, response) in responses(&document) {
        let examples = &response["content"]["application/problem+json"]["examples"];
        for (code, example) in members(examples) {
            let example = &resolve(&document, example)["value"];
            let expected = (json!(code), json!(status.parse::<u16>().unwrap()));
            assert_eq!(
                (&example["code"], &example["status"]),
                (&expected.0, &expected.1),
                "{name}"
            );
            shown.insert(code.clone());
        }
    }
    assert_eq!(shown, codes);
}

#[test]
fn every_response_documents_its_headers() {
    let document = document();
    for (name, status, response) in responses(&document) {
        let names: Vec<&str> =
            members(&response["headers"]).map(|(header, _)| header.as_str()).collect();
        let has = |required: &[&str]| required.iter().all(|header| names.contains(header));
        assert!(has(&["x-request-id"]), "{name} {status}");
        if !response["content"]["text/event-stream"].is_null() {
            assert!(has(&["cache-control", "x-accel-buffering"]), "{name} {status}");
        }
        if ["429", "503"].contains(&status) && name != "get_readiness" {
            assert!(has(&["retry-after", "x-should-retry"]), "{name} {status}");
        }
    }
}

#[test]
fn every_link_leads_to_an_operation_and_names_its_parameters() {
    let document = document();
    let mut links = 0;
    for (name, _, response) in responses(&document) {
        for (_, link) in members(&response["links"]) {
            let to = link["operationId"].as_str().unwrap();
            let operation = operations(&document).find(|(id, _)| *id == to);
            let (_, operation) =
                operation.unwrap_or_else(|| panic!("{name} links to {to}, which does not exist"));
            let parameters = operation["parameters"].as_array().unwrap().iter();
            let in_path = parameters.filter(|parameter| parameter["in"] == "path");
            let needed: BTreeSet<&str> = in_path.map(|it| it["name"].as_str().unwrap()).collect();
            let given = members(&link["parameters"]).map(|(name, _)| name.as_str()).collect();
            assert_eq!(needed, given, "from {name} to {to}");
            links += 1;
        }
    }
    assert!(links > 20);
}

#[test]
fn every_operation_states_which_keys_it_needs() {
    let document = document();
    let schemes = &document["components"]["securitySchemes"];
    let webhooks = members(&document["webhooks"]).flat_map(|(_, methods)| members(methods));
    for (name, operation) in operations(&document).chain(webhooks.map(|(_, it)| ("webhook", it))) {
        let requirements = operation["security"].as_array().unwrap_or_else(|| panic!("{name}"));
        for (scheme, _) in requirements.iter().flat_map(members) {
            assert!(schemes.get(scheme).is_some(), "{name}: {scheme}");
        }
    }
}

#[test]
fn every_example_of_the_components_is_used() {
    let document = document();
    let text = document["paths"].to_string() + &document["components"]["responses"].to_string();
    for (name, _) in members(&document["components"]["examples"]) {
        assert!(text.contains(&format!("\"#/components/examples/{name}\"")), "{name}");
    }
}

#[test]
fn every_operation_that_can_answer_304_has_the_condition_as_a_parameter() {
    let document = document();
    let mut checked = Vec::new();
    for (name, operation) in operations(&document) {
        if operation["responses"]["304"].is_null() {
            continue;
        }
        let parameters = operation["parameters"].as_array().unwrap();
        let named: Vec<&str> = parameters
            .iter()
            .map(|parameter| resolve(&document, parameter)["name"].as_str().unwrap())
            .filter(|name| *name == "If-None-Match")
            .collect();
        assert_eq!(named, ["If-None-Match"], "{name}");
        checked.push(name);
    }
    assert!(checked.contains(&"get_openapi") && checked.len() > 10, "{checked:?}");
}
