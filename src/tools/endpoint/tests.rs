//! Tests of the tool declarations.

use serde_json::json;

use super::*;

fn read(hosts: &Value, change: Value) -> Result<Vec<(String, ToolClass, u64)>, String> {
    // Fails if another test of the same process has installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut tool = json!({
        "name": "order", "description": "Orders.", "input_schema": { "type": "object" },
        "url": "https://tools.example.com/order",
    });
    let Value::Object(change) = change else { panic!("{change}") };
    tool.as_object_mut().unwrap().extend(change);
    let tools = endpoints(&json!({ "hosts": hosts, "tools": [tool] }).to_string());
    let summary = |tool: &std::sync::Arc<dyn Tool>| {
        (tool.name().to_owned(), tool.class(), tool.deadline(RawValue::NULL).as_secs())
    };
    tools.map(|tools| tools.iter().map(summary).collect()).map_err(|error| error.to_string())
}

#[test]
fn a_minimal_declaration_is_a_tool_with_effects() {
    let usual = read(&json!([]), json!({}));
    assert_eq!(usual.unwrap(), [("order".to_owned(), ToolClass::Effect, 60)]);
    let change = json!({ "class": "pure", "timeout_seconds": 5, "name": "look",
        "secret": "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=" });
    assert_eq!(read(&json!([]), change).unwrap(), [("look".to_owned(), ToolClass::Pure, 5)]);
}

#[test]
fn an_endpoint_host_must_be_public_or_listed() {
    let at = |hosts: Value, url: &str| read(&hosts, json!({ "url": url }));
    assert!(at(json!(["127.0.0.1:9000"]), "http://127.0.0.1:9000/order").is_ok());
    for (url, expected) in [
        ("http://127.0.0.1:9001/order", "is not an https URL"),
        ("https://127.0.0.1:9001/order", "is at an address that is not public"),
        ("http://tools.example.com/", "is not an https URL"),
        ("https://me:secret@tools.example.com/", "has a user name or a password"),
        ("order", "cannot be read"),
    ] {
        let expected = format!("the tool \"order\": the URL {expected}");
        assert_eq!(at(json!(["127.0.0.1:9000"]), url), Err(expected), "{url}");
    }
    let expected = "hosts: \"a/b\" is neither `public` nor a host, with or without a port";
    assert_eq!(at(json!(["a/b"]), "https://a"), Err(expected.to_owned()));
}

#[test]
fn an_invalid_declaration_is_refused_without_disclosing_secrets() {
    let secret = "the tool \"order\": the secret is not `whsec_` and 32 bytes in Base64";
    let timeout = "the tool \"order\": timeout_seconds is not 1 to 600";
    for (change, expected) in [
        (json!({ "secret": "planted-secret" }), secret),
        (json!({ "secret": "whsec_planted" }), secret),
        (json!({ "secret": "whsec_AAAA" }), secret),
        (json!({ "timeout_seconds": 0 }), timeout),
        (json!({ "timeout_seconds": 601 }), timeout),
    ] {
        assert_eq!(read(&json!([]), change), Err(expected.to_owned()));
    }
    for change in [json!({ "class": "checkable" }), json!({ "methd": "GET" }), json!({ "url": 1 })]
    {
        let error = read(&json!([]), change.clone()).unwrap_err();
        assert!(error.contains("line 1"), "{change}: {error}");
    }
}
