//! Checks each error response of a test against the OpenAPI document.

use std::sync::LazyLock;

use serde_json::Value;

static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| serde_json::to_value(twostep::http::document()).unwrap());

/// Checks that the document lists this status and code for an operation of the path. Paths outside
/// the document, such as those under a base path, are not checked.
pub(crate) fn assert_documented(path: &str, status: u16, code: &str) {
    let versioned = format!("/v1{path}");
    let mut known = false;
    for (template, operations) in DOCUMENT["paths"].as_object().unwrap() {
        if !matches_path(template, path) && !matches_path(template, &versioned) {
            continue;
        }
        known = true;
        let mut operations = operations.as_object().unwrap().values();
        if operations.any(|operation| lists(operation, status, code)) {
            return;
        }
    }
    let is_general = code == "method_not_allowed" || code == "route_not_found";
    assert!(!known || is_general, "the document does not list {status} {code} for {path}");
}

fn matches_path(template: &str, path: &str) -> bool {
    let (mut wanted, mut given) = (template.split('/'), path.split('/'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some(wanted), Some(given)) if wanted.starts_with('{') || wanted == given => {}
            _ => return false,
        }
    }
}

fn lists(operation: &Value, status: u16, code: &str) -> bool {
    let response = &operation["responses"][status.to_string()];
    let response = match response["$ref"].as_str() {
        Some(path) => DOCUMENT.pointer(path.strip_prefix('#').unwrap()).unwrap(),
        None => response,
    };
    !response["content"]["application/problem+json"]["examples"][code].is_null()
}
