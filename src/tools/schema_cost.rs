//! Upper bound for the cost of validating an input against a schema. Schemas come from untrusted
//! servers. A schema of a few hundred bytes whose references double at each level takes years to
//! validate, and a running validation cannot be cancelled.

use serde_json::{Map, Value};

/// The maximum number of schema locations that one validation visits, with repetitions.
const MAX_STEPS: usize = 500_000;
/// The maximum nesting depth of visited locations.
const MAX_DEPTH: usize = 500;
/// The cost of a regular expression match, without and with backtracking.
const PATTERN: usize = 10;
const PATTERN_THAT_GOES_BACK: usize = 5_000;

/// Returns whether the validation cost is within the limits. The estimate is never less than the
/// work of the validator.
pub(in crate::tools) fn is_bounded(schema: &Value, input: &Value) -> bool {
    let mut walk = Walk { root: schema, steps: 0, depth: 0 };
    walk.visit(schema, input, None).is_ok()
}

/// The cost exceeds the limit or cannot be estimated.
struct LimitExceeded;

struct Walk<'a> {
    root: &'a Value,
    steps: usize,
    depth: usize,
}

/// The references that lead to the current input location, the most recent first.
#[derive(Clone, Copy)]
struct Open<'s, 'a> {
    schema: &'a Value,
    before: Option<&'s Open<'s, 'a>>,
}

impl Open<'_, '_> {
    fn has(&self, schema: &Value) -> bool {
        std::ptr::eq(self.schema, schema) || self.before.is_some_and(|open| open.has(schema))
    }
}

impl<'a> Walk<'a> {
    fn visit(
        &mut self,
        schema: &'a Value,
        input: &Value,
        open: Option<&Open<'_, 'a>>,
    ) -> Result<(), LimitExceeded> {
        self.step(1)?;
        let Some(keywords) = schema.as_object() else { return Ok(()) };
        // A nested `$id` changes the base URI of the references below it.
        if self.depth > 0 && keywords.get("$id").is_some_and(Value::is_string) {
            return Err(LimitExceeded);
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(LimitExceeded);
        }
        // `unevaluated…` keywords require a second evaluation of all other keywords.
        let has_rest = keywords.keys().any(|key| key.starts_with("unevaluated"));
        for (keyword, value) in keywords {
            for _ in 0..=usize::from(has_rest) {
                self.visit_in_place(keyword, value, input, open)?;
            }
            match input {
                Value::Object(members) => self.visit_members(keyword, value, members)?,
                Value::Array(elements) => self.visit_elements(keyword, value, elements)?,
                Value::String(text) if keyword == "pattern" => {
                    self.step(text.len() / 100 + value.as_str().map_or(0, pattern))?;
                }
                Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn step(&mut self, steps: usize) -> Result<(), LimitExceeded> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > MAX_STEPS { Err(LimitExceeded) } else { Ok(()) }
    }

    /// Adds the cost of a keyword that applies to the current location.
    fn visit_in_place(
        &mut self,
        keyword: &str,
        value: &'a Value,
        input: &Value,
        open: Option<&Open<'_, 'a>>,
    ) -> Result<(), LimitExceeded> {
        match keyword {
            "allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else" => {
                each(value).try_for_each(|schema| self.visit(schema, input, open))
            }
            "dependentSchemas" | "dependencies" => {
                let mut schemas = value.as_object().into_iter().flat_map(Map::values);
                schemas.try_for_each(|schema| self.visit(schema, input, open))
            }
            "$ref" | "$dynamicRef" | "$recursiveRef" => {
                let schema = value.as_str().and_then(|to| self.target(to)).ok_or(LimitExceeded)?;
                // A reference to a schema that is already being visited at this location adds no
                // cost.
                if open.is_some_and(|open| open.has(schema)) {
                    return Ok(());
                }
                self.visit(schema, input, Some(&Open { schema, before: open }))
            }
            _ => Ok(()),
        }
    }

    /// Adds the cost of a keyword that applies to the members of an object.
    fn visit_members(
        &mut self,
        keyword: &str,
        value: &'a Value,
        members: &Map<String, Value>,
    ) -> Result<(), LimitExceeded> {
        let mut named = value.as_object().into_iter().flatten();
        match keyword {
            "properties" => named.try_for_each(|(name, schema)| match members.get(name) {
                Some(member) => self.visit(schema, member, None),
                None => Ok(()),
            }),
            "patternProperties" => named.try_for_each(|(words, schema)| {
                members.values().try_for_each(|member| {
                    self.step(pattern(words))?;
                    self.visit(schema, member, None)
                })
            }),
            "additionalProperties" | "unevaluatedProperties" => {
                members.values().try_for_each(|member| self.visit(value, member, None))
            }
            "propertyNames" => members
                .keys()
                .try_for_each(|name| self.visit(value, &Value::from(name.as_str()), None)),
            _ => Ok(()),
        }
    }

    /// Adds the cost of a keyword that applies to the elements of an array.
    fn visit_elements(
        &mut self,
        keyword: &str,
        value: &'a Value,
        elements: &[Value],
    ) -> Result<(), LimitExceeded> {
        match keyword {
            "items" | "contains" | "additionalItems" | "unevaluatedItems" | "prefixItems" => {
                each(value).try_for_each(|schema| {
                    elements.iter().try_for_each(|element| self.visit(schema, element, None))
                })
            }
            _ => Ok(()),
        }
    }

    /// Resolves a local JSON pointer reference. Returns `None` for all other references.
    fn target(&self, reference: &str) -> Option<&'a Value> {
        let pointer = reference.strip_prefix('#')?;
        if pointer.contains('%') { None } else { self.root.pointer(pointer) }
    }
}

/// Iterates over a schema, or over each schema in an array.
fn each(value: &Value) -> impl Iterator<Item = &Value> {
    let several = value.as_array();
    several.into_iter().flatten().chain(several.is_none().then_some(value))
}

/// Returns the cost of matching a text against a regular expression.
fn pattern(pattern: &str) -> usize {
    let is_lookaround = |three: &[u8]| matches!(three, [b'(', b'?', b'=' | b'!' | b'<' | b'>']);
    let refers = |two: &[u8]| matches!(two, [b'\\', b'1'..=b'9' | b'k']);
    let bytes = pattern.as_bytes();
    let goes_back = bytes.windows(3).any(is_lookaround) || bytes.windows(2).any(refers);
    if goes_back { PATTERN_THAT_GOES_BACK } else { PATTERN }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a schema whose references double at each of `steps` levels.
    fn doubling(steps: usize) -> Value {
        let mut defs = Map::new();
        for step in 0..steps {
            let next = json!({ "$ref": format!("#/$defs/{}", step + 1) });
            defs.insert(step.to_string(), json!({ "allOf": [next, next] }));
        }
        defs.insert(steps.to_string(), json!({ "required": ["a"] }));
        json!({ "type": "object", "$ref": "#/$defs/0", "$defs": defs })
    }

    fn nested(depth: usize) -> Value {
        (0..depth).fold(json!({}), |inner, _| json!({ "a": inner }))
    }

    #[test]
    fn exponential_validation_is_rejected_and_linear_validation_is_accepted() {
        assert!(is_bounded(&doubling(10), &json!({})));
        assert!(!is_bounded(&doubling(40), &json!({})));
        let tree = json!({ "type": "object", "properties": { "a": { "$ref": "#" } } });
        assert!(is_bounded(&tree, &nested(100)));
        let twice = json!({ "allOf": [{ "$ref": "#" }, { "$ref": "#" }] });
        let tree = json!({ "type": "object", "properties": { "a": twice } });
        assert!(is_bounded(&tree, &nested(3)));
        assert!(!is_bounded(&tree, &nested(40)));
        let rest = |inner: Value| json!({ "unevaluatedProperties": false, "anyOf": [inner] });
        assert!(!is_bounded(&(0..40).fold(json!({}), |inner, _| rest(inner)), &json!({})));
    }

    #[test]
    fn a_self_reference_is_visited_once() {
        assert!(is_bounded(&json!({ "type": "object", "allOf": [{ "$ref": "#" }] }), &nested(5)));
        let around = json!({ "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } });
        assert!(is_bounded(&json!({ "$ref": "#/$defs/a", "$defs": around }), &json!({})));
    }

    #[test]
    fn references_that_cannot_be_resolved_are_rejected() {
        for odd in ["#anchor", "other.json", "#/nowhere", "#/%24defs"] {
            assert!(!is_bounded(&json!({ "$ref": odd, "$defs": {} }), &json!({})), "{odd}");
        }
        let named = json!({ "$id": "a://b", "properties": { "a": { "$id": "c" } } });
        assert!(is_bounded(&named, &json!({})));
        assert!(!is_bounded(&named, &nested(1)));
    }

    #[test]
    fn patterns_with_backtracking_cost_more() {
        let schema = |pattern: &str| json!({ "items": { "pattern": pattern } });
        let texts = |count: usize| Value::from(vec!["x"; count]);
        assert!(is_bounded(&schema("^[a-z]+$"), &texts(10_000)));
        assert!(is_bounded(&schema("^(?=a)b$"), &texts(10)));
        assert!(!is_bounded(&schema("^(?=a)b$"), &texts(10_000)));
        assert!(!is_bounded(&schema(r"^(a|aa)+\1$"), &texts(10_000)));
    }

    #[test]
    fn large_inputs_of_simple_schemas_are_accepted() {
        let row = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
        let schema = json!({ "type": "object", "properties": { "rows": { "items": row } } });
        let rows = vec![json!({ "n": 1 }); 50_000];
        assert!(is_bounded(&schema, &json!({ "rows": rows })));
    }
}
