//! What it would take to check an input against a schema. Schemas come from strangers, and one of a
//! few hundred bytes whose references double at each step takes years: nobody could end that.

use serde_json::{Map, Value};

/// Places of the schema that are looked at, each as often as it is.
const MAX_STEPS: usize = 500_000;
/// Places that are looked at within each other.
const MAX_DEPTH: usize = 500;
/// What a pattern counts for, and one that may have to go back.
const PATTERN: usize = 10;
const PATTERN_THAT_GOES_BACK: usize = 5_000;

/// Whether an input can be checked in good time. More is counted than a validator does, never less.
pub(in crate::tools) fn is_bounded(schema: &Value, input: &Value) -> bool {
    let mut walk = Walk { root: schema, steps: 0, depth: 0 };
    walk.look(schema, input, None).is_ok()
}

/// It would take too much, or nobody can tell.
struct TooMuch;

struct Walk<'a> {
    root: &'a Value,
    steps: usize,
    depth: usize,
}

/// The references by which a place of the input was come to, the last one first.
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
    fn look(
        &mut self,
        schema: &'a Value,
        input: &Value,
        open: Option<&Open<'_, 'a>>,
    ) -> Result<(), TooMuch> {
        self.step(1)?;
        let Some(keywords) = schema.as_object() else { return Ok(()) };
        // References would not mean what they say here.
        if self.depth > 0 && keywords.get("$id").is_some_and(Value::is_string) {
            return Err(TooMuch);
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(TooMuch);
        }
        // What is left over is found out by looking at all the rest once more.
        let has_rest = keywords.keys().any(|key| key.starts_with("unevaluated"));
        for (keyword, said) in keywords {
            for _ in 0..=usize::from(has_rest) {
                self.look_here(keyword, said, input, open)?;
            }
            match input {
                Value::Object(members) => self.look_at_members(keyword, said, members)?,
                Value::Array(elements) => self.look_at_elements(keyword, said, elements)?,
                Value::String(text) if keyword == "pattern" => {
                    self.step(text.len() / 100 + said.as_str().map_or(0, pattern))?;
                }
                Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn step(&mut self, steps: usize) -> Result<(), TooMuch> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > MAX_STEPS { Err(TooMuch) } else { Ok(()) }
    }

    /// What a keyword says of this same place.
    fn look_here(
        &mut self,
        keyword: &str,
        said: &'a Value,
        input: &Value,
        open: Option<&Open<'_, 'a>>,
    ) -> Result<(), TooMuch> {
        match keyword {
            "allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else" => {
                each(said).try_for_each(|schema| self.look(schema, input, open))
            }
            "dependentSchemas" | "dependencies" => {
                let mut schemas = said.as_object().into_iter().flat_map(Map::values);
                schemas.try_for_each(|schema| self.look(schema, input, open))
            }
            "$ref" | "$dynamicRef" | "$recursiveRef" => {
                let schema = said.as_str().and_then(|to| self.target(to)).ok_or(TooMuch)?;
                // One that leads back to where it is has been looked at.
                if open.is_some_and(|open| open.has(schema)) {
                    return Ok(());
                }
                self.look(schema, input, Some(&Open { schema, before: open }))
            }
            _ => Ok(()),
        }
    }

    /// What a keyword says of the members of this place.
    fn look_at_members(
        &mut self,
        keyword: &str,
        said: &'a Value,
        members: &Map<String, Value>,
    ) -> Result<(), TooMuch> {
        let mut named = said.as_object().into_iter().flatten();
        match keyword {
            "properties" => named.try_for_each(|(name, schema)| match members.get(name) {
                Some(member) => self.look(schema, member, None),
                None => Ok(()),
            }),
            "patternProperties" => named.try_for_each(|(words, schema)| {
                members.values().try_for_each(|member| {
                    self.step(pattern(words))?;
                    self.look(schema, member, None)
                })
            }),
            "additionalProperties" | "unevaluatedProperties" => {
                members.values().try_for_each(|member| self.look(said, member, None))
            }
            "propertyNames" => members
                .keys()
                .try_for_each(|name| self.look(said, &Value::from(name.as_str()), None)),
            _ => Ok(()),
        }
    }

    /// What a keyword says of the elements of this place.
    fn look_at_elements(
        &mut self,
        keyword: &str,
        said: &'a Value,
        elements: &[Value],
    ) -> Result<(), TooMuch> {
        match keyword {
            "items" | "contains" | "additionalItems" | "unevaluatedItems" | "prefixItems" => {
                each(said).try_for_each(|schema| {
                    elements.iter().try_for_each(|element| self.look(schema, element, None))
                })
            }
            _ => Ok(()),
        }
    }

    /// What a reference leads to, if it leads to a place of the schema in the plain way.
    fn target(&self, reference: &str) -> Option<&'a Value> {
        let pointer = reference.strip_prefix('#')?;
        if pointer.contains('%') { None } else { self.root.pointer(pointer) }
    }
}

/// A schema, or each of several.
fn each(said: &Value) -> impl Iterator<Item = &Value> {
    let several = said.as_array();
    several.into_iter().flatten().chain(several.is_none().then_some(said))
}

/// What it counts for that a text is held against a pattern.
fn pattern(pattern: &str) -> usize {
    let looks_around = |three: &[u8]| matches!(three, [b'(', b'?', b'=' | b'!' | b'<' | b'>']);
    let refers = |two: &[u8]| matches!(two, [b'\\', b'1'..=b'9' | b'k']);
    let bytes = pattern.as_bytes();
    let goes_back = bytes.windows(3).any(looks_around) || bytes.windows(2).any(refers);
    if goes_back { PATTERN_THAT_GOES_BACK } else { PATTERN }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A schema whose references double at each of so many steps.
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
    fn what_doubles_at_each_step_is_too_much_and_what_adds_up_is_not() {
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
    fn a_reference_to_where_it_stands_is_looked_at_once() {
        assert!(is_bounded(&json!({ "type": "object", "allOf": [{ "$ref": "#" }] }), &nested(5)));
        let around = json!({ "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } });
        assert!(is_bounded(&json!({ "$ref": "#/$defs/a", "$defs": around }), &json!({})));
    }

    #[test]
    fn what_cannot_be_followed_is_too_much() {
        for odd in ["#anchor", "other.json", "#/nowhere", "#/%24defs"] {
            assert!(!is_bounded(&json!({ "$ref": odd, "$defs": {} }), &json!({})), "{odd}");
        }
        let named = json!({ "$id": "a://b", "properties": { "a": { "$id": "c" } } });
        assert!(is_bounded(&named, &json!({})));
        assert!(!is_bounded(&named, &nested(1)));
    }

    #[test]
    fn patterns_count_for_what_they_may_take() {
        let schema = |pattern: &str| json!({ "items": { "pattern": pattern } });
        let texts = |count: usize| Value::from(vec!["x"; count]);
        assert!(is_bounded(&schema("^[a-z]+$"), &texts(10_000)));
        assert!(is_bounded(&schema("^(?=a)b$"), &texts(10)));
        assert!(!is_bounded(&schema("^(?=a)b$"), &texts(10_000)));
        assert!(!is_bounded(&schema(r"^(a|aa)+\1$"), &texts(10_000)));
    }

    #[test]
    fn large_inputs_of_plain_schemas_are_checked() {
        let row = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
        let schema = json!({ "type": "object", "properties": { "rows": { "items": row } } });
        let rows = vec![json!({ "n": 1 }); 50_000];
        assert!(is_bounded(&schema, &json!({ "rows": rows })));
    }
}
