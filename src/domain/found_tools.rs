//! The result of a search for deferred tools, as a text and as references.
//!
//! The ledger and the events have the text; the history has references to the tools that the text
//! names. So a call that another worker has executed gets the same references.

use std::fmt::Write as _;

use serde::Deserialize;

/// The line before the names of the found tools.
const FOUND: &str = "Found, and ready to be called:";

/// Returns the text of a result: the names of the found tools, and a note on other names or matches.
pub fn found_text<'a>(names: impl IntoIterator<Item = &'a str>, note: &str) -> String {
    let mut text = String::new();
    for name in names {
        if text.is_empty() {
            text.push_str(FOUND);
        }
        let _ = write!(text, "\n- {name}");
    }
    if !note.is_empty() {
        text.push_str(if text.is_empty() { "" } else { "\n\n" });
        text.push_str(note);
    }
    text
}

/// Returns the content of a result with this text: a JSON array of references, or none if the text names
/// no known tool. The API accepts nothing else next to references, and only those to tools of the request.
pub fn references(text: &str, is_known: impl Fn(&str) -> bool) -> Option<String> {
    // A note about an edited input may precede the text.
    let (_, names) = text.rsplit_once(FOUND)?;
    let names = names.lines().skip(1).map_while(|line| line.strip_prefix("- "));
    let names = names.filter(|name| is_known(name));
    let references =
        names.map(|name| format!(r#"{{"type":"tool_reference","tool_name":"{name}"}}"#));
    let references: Vec<String> = references.collect();
    (!references.is_empty()).then(|| format!("[{}]", references.join(",")))
}

/// The names of the tools to which the content of a result refers, or none for any other content.
pub fn referenced(content: &str) -> Option<Vec<String>> {
    #[derive(Deserialize)]
    #[serde(tag = "type", rename_all = "snake_case")]
    enum Part {
        ToolReference { tool_name: String },
    }
    let parts: Vec<Part> = serde_json::from_str(content).ok()?;
    let names = parts.into_iter().map(|Part::ToolReference { tool_name }| tool_name);
    Some(names.collect()).filter(|names: &Vec<String>| !names.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_result_becomes_references_to_the_tools_that_it_names() {
        let text = found_text(["mcp__a__get", "b"], "No deferred tool has the name x.");
        assert_eq!(
            text,
            "Found, and ready to be called:\n- mcp__a__get\n- b\n\nNo deferred tool has the name x."
        );
        let expected = concat!(
            r#"[{"type":"tool_reference","tool_name":"mcp__a__get"},"#,
            r#"{"type":"tool_reference","tool_name":"b"}]"#,
        );
        let references = |text: &str| references(text, |name| name != "unknown");
        assert_eq!(references(&text).as_deref(), Some(expected));
        assert_eq!(references(&format!("[edited]\n- c\n{text}")).as_deref(), Some(expected));
        assert_eq!(referenced(expected), Some(vec!["mcp__a__get".to_owned(), "b".to_owned()]));
        let mixed = r#"[{"type":"tool_reference","tool_name":"b"},{"type":"text","text":"c"}]"#;
        for other in [mixed, "[]", "\"b\""] {
            assert_eq!(referenced(other), None);
        }
        assert_eq!(references(&found_text([], "Nothing matches.")), None);
        assert_eq!(references(&found_text(["unknown"], "")), None);
        assert_eq!(found_text([], "Nothing matches."), "Nothing matches.");
    }
}
