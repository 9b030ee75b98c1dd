//! What bodies are made of.

use serde_json::Value;

use super::html::{code, inline, paragraphs, table, text};
use super::{list, members, said, within};

/// All schemas that have a name.
pub(super) fn section(document: &Value) -> String {
    let all = members(within(document, "/components/schemas"));
    let all: String = all.map(|(name, schema)| article(name, schema)).collect();
    format!(
        "<section aria-labelledby=\"schemas\">\n<h2 id=\"schemas\">Schemas</h2>\n{all}</section>\n"
    )
}

fn article(name: &str, schema: &Value) -> String {
    let name = text(name);
    let is_plain = schema["properties"].is_null();
    let kind = if is_plain { format!("<p>{}</p>\n", brief(schema)) } else { String::new() };
    format!(
        "<article aria-labelledby=\"schema-{name}\">\n<h3 id=\"schema-{name}\">{name}</h3>\n\
         {}{kind}{}</article>\n",
        paragraphs(said(schema, "description")),
        parts(schema),
    )
}

/// The members of an object, or those of each part of a union that have no name of their own.
fn parts(schema: &Value) -> String {
    let heads = ["Member", "Type", "What it is"];
    let unions = ["oneOf", "anyOf", "allOf"].iter().flat_map(|union| list(&schema[*union]));
    let whole = std::iter::once(schema).chain(unions);
    whole
        .map(|part| {
            let mut rows = Vec::new();
            collect("", part, &mut rows);
            table(&heads, &rows)
        })
        .collect()
}

/// A row for each member, those of members without a name among them.
fn collect(before: &str, schema: &Value, rows: &mut Vec<Vec<String>>) {
    for (name, member) in members(&schema["properties"]) {
        let path = format!("{before}{name}");
        let is_required = list(&schema["required"]).iter().any(|it| it == name);
        let required = if is_required { ", required" } else { "" };
        let kind = format!("{}{required}", brief(member));
        rows.push(vec![code(&path), kind, inline(said(member, "description"))]);
        collect(&format!("{path}."), member, rows);
        collect(&format!("{path}[]."), &member["items"], rows);
    }
}

/// What a schema is, in a few words; a link if it has a name.
pub(super) fn brief(schema: &Value) -> String {
    let reference = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next());
    if let Some(name) = reference.map(text) {
        return format!("<a href=\"#schema-{name}\">{name}</a>");
    }
    let several = |parts: &[Value], between: &str| -> String {
        parts.iter().map(brief).collect::<Vec<_>>().join(between)
    };
    for (union, between) in [("oneOf", " or "), ("anyOf", " or "), ("allOf", " and ")] {
        if !schema[union].is_null() {
            return several(list(&schema[union]), between);
        }
    }
    if let Some(values) = schema["enum"].as_array() {
        let values = values.iter().map(|value| code(&value.to_string()));
        return values.collect::<Vec<_>>().join(", ");
    }
    if !schema["items"].is_null() {
        return format!("list of {}", brief(&schema["items"]));
    }
    format!("{}{}", kind(&schema["type"]), bounds(schema))
}

fn kind(of: &Value) -> String {
    match of {
        Value::String(one) => text(one),
        Value::Array(several) => several.iter().map(kind).collect::<Vec<_>>().join(" or "),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => "anything".to_owned(),
    }
}

/// What is said of a value beside its type.
fn bounds(schema: &Value) -> String {
    let words = [
        ("format", ""),
        ("default", "if absent "),
        ("minimum", "at least "),
        ("maximum", "at most "),
        ("minLength", "length at least "),
        ("maxLength", "length at most "),
        ("pattern", "pattern "),
    ];
    let said = words.iter().filter_map(|(member, word)| {
        let value = schema.get(*member)?;
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Some(format!("{word}{}", code(&value)))
    });
    let said: Vec<String> = said.collect();
    if said.is_empty() { String::new() } else { format!(" ({})", said.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_schema_is_told_in_a_few_words() {
        for (schema, expected) in [
            (json!({}), "anything"),
            (json!({ "type": ["string", "null"] }), "string or null"),
            (json!({ "$ref": "#/components/schemas/Run" }), "<a href=\"#schema-Run\">Run</a>"),
            (json!({ "enum": ["a", 1] }), "<code>&quot;a&quot;</code>, <code>1</code>"),
            (json!({ "type": "array", "items": { "type": "integer" } }), "list of integer"),
            (
                json!({ "type": "integer", "minimum": 1, "default": 50 }),
                "integer (if absent <code>50</code>, at least <code>1</code>)",
            ),
            (json!({ "oneOf": [{ "type": "string" }, { "type": "object" }] }), "string or object"),
        ] {
            assert_eq!(brief(&schema), expected);
        }
    }

    #[test]
    fn members_of_members_are_told_with_their_paths() {
        let inner = json!({ "properties": { "b": { "type": "string" } } });
        let schema = json!({
            "properties": { "a": inner, "c": { "type": "array", "items": inner } },
            "required": ["a"],
        });
        let mut rows = Vec::new();
        collect("", &schema, &mut rows);
        let paths: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
        let expected = ["a", "a.b", "c", "c[].b"].map(|path| format!("<code>{path}</code>"));
        assert_eq!(paths, expected);
        assert_eq!((rows[0][1].as_str(), rows[1][1].as_str()), ("anything, required", "string"));
    }
}
