//! Strict tools: the model provider compiles their schemas into a grammar, so that the inputs of their
//! calls are always valid.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::output_schema::{SchemaCounts, UnsupportedPart, counts};

/// Maximum number of strict tools of a request.
const MAX_STRICT: usize = 20;

#[derive(Deserialize)]
struct Definition {
    name: String,
    #[serde(default)]
    strict: bool,
    #[serde(default)]
    input_schema: Value,
}

/// Returns `true` if one of these definitions is strict.
pub fn has_strict(definitions: &RawValue) -> bool {
    !strict(definitions).is_empty()
}

fn strict(definitions: &RawValue) -> Vec<Definition> {
    // Most sessions have none, and some have many other tools.
    if !definitions.get().contains(r#""strict":true"#) {
        return Vec::new();
    }
    let read: Vec<Definition> = serde_json::from_str(definitions.get()).unwrap_or_default();
    read.into_iter().filter(|tool| tool.strict).collect()
}

/// Returns the reason why the provider refuses the strict tools among these definitions, next to an output
/// schema; none if it accepts them. `takes_optional` is true if the provider supports optional members.
pub fn problem<'a>(
    definitions: impl IntoIterator<Item = &'a RawValue>,
    output_schema: Option<&RawValue>,
    takes_optional: bool,
) -> Option<String> {
    let tools: Vec<Definition> = definitions.into_iter().flat_map(strict).collect();
    if tools.len() > MAX_STRICT {
        return Some(format!("has {} strict tools; at most {MAX_STRICT} are allowed", tools.len()));
    }
    // An invalid output schema is refused as such.
    let output = output_schema.and_then(|schema| serde_json::from_str(schema.get()).ok());
    let of_output = output.and_then(|schema: Value| counts(&schema, takes_optional).ok());
    let mut all = of_output.unwrap_or_default();
    for Definition { name, input_schema, .. } in &tools {
        match counts(input_schema, takes_optional) {
            Ok(SchemaCounts { optional, unions }) => {
                all.optional += optional;
                all.unions += unions;
            }
            Err(UnsupportedPart { pointer, reason }) => {
                return Some(format!(
                    "has the tool {name}, which cannot be strict: /input_schema{pointer} {reason}"
                ));
            }
        }
    }
    let exceeded = all.exceeded().filter(|_| !tools.is_empty())?;
    Some(format!("has strict tools with {exceeded}, counted together with the output schema"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use serde_json::value::to_raw_value;

    use super::*;

    fn tool(name: &str, is_strict: bool, properties: usize) -> Value {
        let properties: serde_json::Map<String, Value> =
            (0..properties).map(|n| (format!("p{n}"), json!({ "type": "string" }))).collect();
        let schema = json!({ "type": "object", "properties": properties,
                             "additionalProperties": false });
        json!({ "name": name, "input_schema": schema, "strict": is_strict })
    }

    fn problem_of(tools: &[Value], output_schema: Option<&Value>, takes_optional: bool) -> String {
        let tools = to_raw_value(tools).unwrap();
        let output_schema = output_schema.map(|schema| to_raw_value(schema).unwrap());
        let found = problem([&*tools], output_schema.as_deref(), takes_optional);
        found.unwrap_or_default()
    }

    #[test]
    fn limits_apply_to_all_strict_tools_of_a_request_together() {
        let many = |count: usize, is_strict: bool| -> Vec<Value> {
            (0..count).map(|n| tool(&format!("t{n}"), is_strict, 0)).collect()
        };
        assert_eq!(problem_of(&many(20, true), None, true), "");
        assert_eq!(problem_of(&many(30, false), None, true), "");
        let expected = "has 21 strict tools; at most 20 are allowed";
        assert_eq!(problem_of(&many(21, true), None, true), expected);
        let two = [tool("a", true, 20), tool("b", true, 4), tool("c", false, 20)];
        assert_eq!(problem_of(&two, None, true), "");
        let output = tool("d", true, 1)["input_schema"].clone();
        let expected = "has strict tools with more than 24 members that are optional, counted \
                        together with the output schema";
        assert_eq!(problem_of(&two, Some(&output), true), expected);
    }

    #[test]
    fn a_schema_that_no_grammar_expresses_is_refused_by_its_pointer() {
        let mut open = tool("a", true, 1);
        open["input_schema"]["properties"]["p0"]["minLength"] = 1.into();
        let expected = "has the tool a, which cannot be strict: \
                        /input_schema/properties/p0/minLength is not supported";
        assert_eq!(problem_of(&[open], None, true), expected);
        let expected = "has the tool a, which cannot be strict: /input_schema/required does not name \
                        \"p0\": the model's server insists on every member";
        assert_eq!(problem_of(&[tool("a", true, 1)], None, false), expected);
        assert!(has_strict(&to_raw_value(&[tool("a", true, 0)]).unwrap()));
        assert!(!has_strict(&to_raw_value(&[tool("a", false, 0)]).unwrap()));
    }
}
