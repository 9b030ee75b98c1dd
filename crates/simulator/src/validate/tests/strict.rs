use serde_json::{Value, json};

use super::{refusal, request};

fn strict(name: &str, schema: &Value) -> Value {
    json!({ "name": name, "input_schema": schema, "strict": true })
}

#[test]
fn strict_tools_have_closed_schemas_and_a_model_that_supports_them() {
    let closed = json!({ "type": "object", "additionalProperties": false });
    let with = |tools: Value| refusal(&request(&json!({ "tools": tools })));
    assert_eq!(with(json!([strict("a", &closed)])), "");
    let open = strict("a", &json!({ "type": "object" }));
    let expected = "tools.0.custom: For 'object' type, 'additionalProperties' must be explicitly set \
                    to false";
    assert_eq!(with(json!([open])), expected);
    let many: Vec<Value> = (0..21).map(|n| strict(&format!("t{n}"), &closed)).collect();
    assert_eq!(with(json!(many)), "tools: at most 20 tools can be strict");
    let old = request(&json!({ "model": "claude-sonnet-4-20250514",
                               "tools": [strict("a", &closed)] }));
    assert_eq!(refusal(&old), "tools: strict tools are not supported for this model.");
}
