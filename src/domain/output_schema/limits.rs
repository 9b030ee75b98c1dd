//! Limits of output schemas: the model provider compiles a schema into a grammar and refuses
//! others.

use serde_json::{Map, Value};

/// Keywords that the model provider refuses.
const REFUSED: [&str; 16] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "maxItems",
    "uniqueItems",
    "contains",
    "minProperties",
    "maxProperties",
    "patternProperties",
    "propertyNames",
    "not",
    "if",
];

/// String formats that the provider supports.
const FORMATS: [&str; 10] =
    ["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"];

/// Maximum number of optional members in all schemas of a request.
const MAX_OPTIONAL: usize = 24;
/// Maximum number of subschemas with several types in all schemas of a request.
const MAX_UNIONS: usize = 16;
/// Maximum number of subschemas after expansion of references. A small schema whose references
/// double at each step would otherwise expand to a large one, expensive to check and to validate
/// with.
const MAX_PLACES: usize = 2000;
/// Maximum length of a chain of references.
const MAX_REFERENCES: usize = 32;

/// A part of a schema that the provider would refuse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsupportedPart {
    /// The position in the schema, as a JSON pointer.
    pub pointer: String,
    /// The reason.
    pub reason: String,
}

/// The parts of schemas whose number in a request is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SchemaCounts {
    /// Optional members.
    pub optional: usize,
    /// Subschemas with several types.
    pub unions: usize,
}

impl SchemaCounts {
    /// Returns the limit that the schemas of a request exceed together, if any.
    pub fn exceeded(self) -> Option<String> {
        if self.optional > MAX_OPTIONAL {
            return Some(format!("more than {MAX_OPTIONAL} members that are optional"));
        }
        let has_many = self.unions > MAX_UNIONS;
        has_many.then(|| format!("more than {MAX_UNIONS} members with several types"))
    }
}

/// Returns the first violation in a schema. `takes_optional` is true if the provider supports
/// optional members.
pub fn unsupported_part(schema: &Value, takes_optional: bool) -> Option<UnsupportedPart> {
    counts(schema, takes_optional).err()
}

/// Counts the limited parts of a schema, or returns its first violation.
pub fn counts(schema: &Value, takes_optional: bool) -> Result<SchemaCounts, UnsupportedPart> {
    let (open, places, counts) = (Vec::new(), 0, SchemaCounts::default());
    let mut walk = Walk { root: schema, takes_optional, open, places, counts };
    walk.check(schema, "")?;
    if let Some(exceeded) = walk.counts.exceeded() {
        refuse("", format!("has {exceeded}"))?;
    }
    match jsonschema::validator_for(schema) {
        Ok(_) => Ok(walk.counts),
        Err(error) => Err(UnsupportedPart { pointer: String::new(), reason: error.to_string() }),
    }
}

/// A traversal of a schema that expands references.
struct Walk<'a> {
    root: &'a Value,
    takes_optional: bool,
    /// The references that lead to the current position.
    open: Vec<&'a str>,
    places: usize,
    counts: SchemaCounts,
}

fn refuse(pointer: impl Into<String>, reason: impl Into<String>) -> Result<(), UnsupportedPart> {
    Err(UnsupportedPart { pointer: pointer.into(), reason: reason.into() })
}

impl<'a> Walk<'a> {
    fn check(&mut self, schema: &'a Value, at: &str) -> Result<(), UnsupportedPart> {
        let Some(schema) = schema.as_object() else {
            return refuse(at, "is not an object");
        };
        self.places += 1;
        if self.places > MAX_PLACES {
            return refuse("", format!("has more than {MAX_PLACES} places"));
        }
        if let Some(word) = REFUSED.iter().find(|word| schema.contains_key(**word)) {
            return refuse(format!("{at}/{word}"), "is not supported");
        }
        strings(schema, at)?;
        if schema.contains_key("anyOf") || schema.get("type").is_some_and(Value::is_array) {
            self.counts.unions += 1;
        }
        if schema.contains_key("properties") || schema.get("type").is_some_and(|it| it == "object")
        {
            self.object(schema, at)?;
        }
        self.parts(schema, at)?;
        match schema.get("$ref") {
            Some(reference) => self.follow(reference, at),
            None => Ok(()),
        }
    }

    fn object(&mut self, schema: &'a Map<String, Value>, at: &str) -> Result<(), UnsupportedPart> {
        if schema.get("additionalProperties") != Some(&Value::Bool(false)) {
            return refuse(format!("{at}/additionalProperties"), "is not false");
        }
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            return Ok(());
        };
        let required = schema.get("required").and_then(Value::as_array);
        let is_required =
            |name: &String| required.is_some_and(|names| names.iter().any(|it| it == name));
        let mut optional = properties.keys().filter(|name| !is_required(name)).peekable();
        if let Some(name) = optional.peek().filter(|_| !self.takes_optional) {
            let reason =
                format!("does not name {name:?}: the model's server insists on every member");
            return refuse(format!("{at}/required"), reason);
        }
        self.counts.optional += optional.count();
        for (name, property) in properties {
            let name = name.replace('~', "~0").replace('/', "~1");
            self.check(property, &format!("{at}/properties/{name}"))?;
        }
        Ok(())
    }

    /// Visits the subschemas other than properties.
    fn parts(&mut self, schema: &'a Map<String, Value>, at: &str) -> Result<(), UnsupportedPart> {
        if let Some(items) = schema.get("items") {
            self.check(items, &format!("{at}/items"))?;
        }
        for word in ["anyOf", "allOf", "oneOf", "prefixItems"] {
            let parts = schema.get(word).and_then(Value::as_array);
            for (index, part) in parts.into_iter().flatten().enumerate() {
                self.check(part, &format!("{at}/{word}/{index}"))?;
            }
        }
        Ok(())
    }

    fn follow(&mut self, reference: &'a Value, at: &str) -> Result<(), UnsupportedPart> {
        let at = format!("{at}/$ref");
        let Some(path) = reference.as_str().and_then(|reference| reference.strip_prefix('#'))
        else {
            return refuse(at, "leads out of the schema");
        };
        if self.open.contains(&path) || path.is_empty() {
            return refuse(at, "leads back to itself");
        }
        if self.open.len() >= MAX_REFERENCES {
            return refuse(at, format!("is reached by more than {MAX_REFERENCES} references"));
        }
        let Some(target) = self.root.pointer(path) else {
            return refuse(at, "leads nowhere");
        };
        self.open.push(path);
        self.check(target, &at)?;
        self.open.pop();
        Ok(())
    }
}

/// Checks keywords of single values.
fn strings(schema: &Map<String, Value>, at: &str) -> Result<(), UnsupportedPart> {
    let is_scalar = |value: &Value| !value.is_array() && !value.is_object();
    let values = schema.get("enum").and_then(Value::as_array);
    if values.is_some_and(|values| !values.iter().all(is_scalar)) {
        return refuse(format!("{at}/enum"), "has a value that is an array or an object");
    }
    if schema.get("minItems").is_some_and(|least| least.as_u64().is_none_or(|least| least > 1)) {
        return refuse(format!("{at}/minItems"), "is not 0 or 1");
    }
    let word = |name: &str| schema.get(name).and_then(Value::as_str);
    if word("format").is_some_and(|format| !FORMATS.contains(&format)) {
        return refuse(format!("{at}/format"), format!("is not one of {}", FORMATS.join(", ")));
    }
    if word("pattern").is_some_and(is_unsupported) {
        return refuse(format!("{at}/pattern"), "looks around or back, which is not supported");
    }
    Ok(())
}

/// Returns `true` if a regular expression uses a group other than `(?:`, a back reference or a word
/// boundary.
fn is_unsupported(pattern: &str) -> bool {
    let mut escaped = false;
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        let is_special = match c {
            _ if escaped => c.is_ascii_digit() && c != '0' || matches!(c, 'b' | 'B' | 'k' | 'G'),
            '(' => rest.as_str().starts_with('?') && !rest.as_str().starts_with("?:"),
            _ => false,
        };
        if is_special {
            return true;
        }
        escaped = c == '\\' && !escaped;
    }
    false
}
