//! The format in which the model reads notebooks.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::cells::{Lines, Notebook};

/// The maximum number of characters shown of a cell's outputs.
const MAX_OUTPUT: usize = 2000;

/// Formats the cells of a notebook with their IDs, sources and text outputs. Returns `None` if the
/// text is not a notebook.
pub(in crate::tools::builtin) fn shown(text: &str) -> Option<String> {
    let notebook = Notebook::read(text).ok()?;
    let mut shown = String::new();
    for (place, cell) in notebook.cells.iter().enumerate() {
        let fields = cell.fields();
        let (name, kind) = (notebook.name(place), &fields.cell_type);
        let source = fields.source.text();
        let _ = writeln!(shown, "<cell id={name:?} type={kind:?}>\n{source}\n</cell>");
        let printed: String = fields.outputs.iter().filter_map(printed).collect();
        if !printed.is_empty() {
            let part: String = printed.chars().take(MAX_OUTPUT).collect();
            let cut = if part.len() < printed.len() { "\n[truncated]" } else { "" };
            let _ = writeln!(shown, "<output>\n{}{cut}\n</output>", part.trim_end());
        }
    }
    Some(shown)
}

/// Returns the text of an output. Images and HTML are omitted.
fn printed(output: &Map<String, Value>) -> Option<String> {
    let of = |value: &Value| Some(serde_json::from_value::<Lines>(value.clone()).ok()?.text());
    if let Some(text) = output.get("text") {
        return of(text);
    }
    if let Some(data) = output.get("data") {
        return of(data.get("text/plain")?);
    }
    let (name, value) = (output.get("ename")?.as_str()?, output.get("evalue")?.as_str()?);
    Some(format!("{name}: {value}\n"))
}
