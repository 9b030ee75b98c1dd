//! Findings: short sentences on the results of tools. They never copy a result.

use std::collections::HashMap;

use serde_json::Value;

use super::{explain, listing};
use crate::phrases::{count, shorten};
use crate::request::{ApiRequest, ContentBlock, blocks};
use crate::selection::Position;

/// Maximum length of a quoted error in characters.
const QUOTED: usize = 160;

/// Returns one finding for each tool result after the latest user text, in order.
pub(super) fn findings(request: ApiRequest<'_>, position: &Position) -> Vec<String> {
    let recent = || request.messages().iter().skip(position.after).flat_map(blocks);
    let calls: HashMap<&str, ContentBlock<'_>> = recent()
        .filter(|block| block.is("tool_use"))
        .filter_map(|block| Some((block.str("id")?, block)))
        .collect();
    recent()
        .filter(|block| block.is("tool_result"))
        .filter_map(|result| Some(finding(*calls.get(result.str("tool_use_id")?)?, result)))
        .collect()
}

fn finding(call: ContentBlock<'_>, result: ContentBlock<'_>) -> String {
    let tool = call.str("name").unwrap_or_default();
    let input = |field| call.get("input").and_then(|input| input.get(field)?.as_str());
    let text = result.result_text();
    if result.get("is_error").is_some_and(|failed| failed == true) {
        let target = input("path").or(input("timezone"));
        let target = target.map_or_else(String::new, |target| format!(" on `{target}`"));
        return format!("`{tool}`{target} failed: {}", shorten(&text, QUOTED));
    }
    let path = input("path");
    match tool {
        "read_file" => explain::file(path.unwrap_or("the file"), &text),
        "list_files" => listing::folder(path, &text),
        "get_time" => clock(input("timezone").unwrap_or("UTC"), &text),
        "write_file" => {
            let lines = input("content").unwrap_or_default().lines().count();
            format!("I wrote {} to `{}`.", count(lines, "line", "lines"), path.unwrap_or("a file"))
        }
        _ => other(tool, &text),
    }
}

/// Finds the time in the result, which is plain text or JSON.
fn clock(zone: &str, text: &str) -> String {
    let parsed: Option<Value> = serde_json::from_str(text).ok();
    let fields = parsed.as_ref().and_then(Value::as_object);
    let time = fields.into_iter().flat_map(|fields| fields.values()).filter_map(Value::as_str);
    let mut time = time.filter(|field| {
        field.contains(':') && field.starts_with(|first: char| first.is_ascii_digit())
    });
    format!("In {zone} it is {}.", shorten(time.next().unwrap_or(text), 80))
}

fn other(tool: &str, text: &str) -> String {
    let lines = text.lines().count();
    if lines == 0 {
        return format!("`{tool}` returned no output.");
    }
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let size = count(lines, "line", "lines");
    format!("`{tool}` returned {size}; the first is \"{}\".", shorten(first, 80))
}
