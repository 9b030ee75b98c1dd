//! The cells of a notebook and their positions in its text. A change of one cell preserves the
//! bytes of all other cells and of the rest of the file.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::CellType;
use super::names::cell_names;
use crate::tools::error::ToolError;

/// A notebook in nbformat 4.
#[derive(Debug)]
pub(super) struct Notebook<'a> {
    text: &'a str,
    /// The byte range of the list of cells.
    list: Range<usize>,
    pub(super) cells: Vec<Cell<'a>>,
    /// The names of the cells, in their order.
    names: Vec<String>,
    /// If set, cells have IDs.
    has_ids: bool,
}

#[derive(Debug)]
pub(super) struct Cell<'a> {
    raw: &'a str,
    place: Range<usize>,
    fields: Fields,
}

/// The fields of a cell that the tool reads.
#[derive(Debug, Deserialize)]
pub(super) struct Fields {
    #[serde(default)]
    id: Option<String>,
    pub(super) cell_type: String,
    pub(super) source: Lines,
    #[serde(default)]
    pub(super) outputs: Vec<Map<String, Value>>,
}

/// A text, as one string or as a list of lines.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Lines {
    Whole(String),
    Each(Vec<String>),
}

impl Lines {
    pub(super) fn text(&self) -> String {
        match self {
            Self::Whole(text) => text.clone(),
            Self::Each(lines) => lines.concat(),
        }
    }
}

impl<'a> Notebook<'a> {
    /// Parses a notebook. The error states why the text is not one.
    pub(super) fn read(text: &'a str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Whole<'a> {
            #[serde(borrow)]
            cells: &'a RawValue,
            nbformat: u64,
            nbformat_minor: u64,
        }
        let say = |error: serde_json::Error| error.to_string();
        let whole: Whole<'a> = serde_json::from_str(text).map_err(say)?;
        if whole.nbformat != 4 {
            return Err(format!("its format is {}, not 4", whole.nbformat));
        }
        let raw: Vec<&'a RawValue> = serde_json::from_str(whole.cells.get()).map_err(say)?;
        let cells = raw.into_iter().map(|raw| {
            let fields = serde_json::from_str(raw.get()).map_err(say)?;
            Ok(Cell { raw: raw.get(), place: place(text, raw.get()), fields })
        });
        let cells: Vec<Cell<'a>> = cells.collect::<Result<_, String>>()?;
        let named: Vec<_> =
            cells.iter().map(|cell| (cell.fields.id.as_deref(), cell.raw)).collect();
        let (names, list) = (cell_names(&named), place(text, whole.cells.get()));
        Ok(Self { text, list, cells, names, has_ids: whole.nbformat_minor >= 5 })
    }

    /// Returns the index of a cell by its name.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|other| other == name)
    }

    /// Returns the name of a cell.
    pub(super) fn name(&self, place: usize) -> &str {
        self.names.get(place).map_or("", String::as_str)
    }

    /// Returns the names of all cells.
    pub(super) fn names(&self) -> String {
        self.names.join(", ")
    }

    /// Returns whether the names of all cells stay the same when other cells or their own content
    /// change.
    pub(super) fn has_lasting_names(&self) -> bool {
        let mut named = self.cells.iter().zip(&self.names);
        named.all(|(cell, name)| cell.fields.id.as_ref() == Some(name))
    }

    /// Returns the text with a new source in a cell. Outputs of a code cell are removed.
    pub(super) fn replaced(
        &self,
        place: usize,
        kind: Option<CellType>,
        source: &str,
    ) -> Result<String, ToolError> {
        let Some(cell) = self.cells.get(place) else { return Ok(self.text.to_owned()) };
        let mut fields: Map<String, Value> = serde_json::from_str(cell.raw)
            .map_err(|error| ToolError::Failed(format!("the cell cannot be parsed: {error}")))?;
        if let Some(kind) = kind {
            fields.insert("cell_type".to_owned(), json!(kind));
        }
        if fields.get("cell_type") == Some(&json!(CellType::Code)) {
            fields.insert("execution_count".to_owned(), Value::Null);
            fields.insert("outputs".to_owned(), json!([]));
            fields.shift_remove("attachments");
        } else {
            fields.shift_remove("execution_count");
            fields.shift_remove("outputs");
        }
        fields.insert("source".to_owned(), lines(source));
        Ok(self.with(cell.place.clone(), &self.written(&Value::Object(fields))))
    }

    /// Returns the text with a new cell after the given one or at the top, and the index of the new
    /// cell.
    pub(super) fn inserted(
        &self,
        behind: Option<usize>,
        kind: CellType,
        source: &str,
        seed: &[u8],
    ) -> (String, usize) {
        let id = self.new_id(seed);
        let mut fields = Map::new();
        fields.insert("cell_type".to_owned(), json!(kind));
        if kind == CellType::Code {
            fields.insert("execution_count".to_owned(), Value::Null);
        }
        if self.has_ids {
            fields.insert("id".to_owned(), json!(id));
        }
        fields.insert("metadata".to_owned(), json!({}));
        if kind == CellType::Code {
            fields.insert("outputs".to_owned(), json!([]));
        }
        fields.insert("source".to_owned(), lines(source));
        let cell = self.written(&Value::Object(fields));
        let text = match (behind.and_then(|place| self.cells.get(place)), self.cells.first()) {
            (Some(before), _) => {
                let end = before.place.end;
                self.with(end..end, &format!(",{}{cell}", self.line(2)))
            }
            (None, Some(first)) => {
                let start = first.place.start;
                self.with(start..start, &format!("{cell},{}", self.line(2)))
            }
            (None, None) => {
                let list = format!("[{}{cell}{}]", self.line(2), self.line(1));
                self.with(self.list.clone(), &list)
            }
        };
        (text, behind.map_or(0, |place| place + 1))
    }

    /// Returns the text without a cell.
    pub(super) fn without(&self, place: usize) -> String {
        let at = |place: usize| self.cells.get(place).map(|cell| cell.place.clone());
        let before = place.checked_sub(1).and_then(at);
        match (before, at(place), at(place + 1)) {
            (_, Some(this), Some(next)) => self.with(this.start..next.start, ""),
            (Some(before), Some(this), None) => self.with(before.end..this.end, ""),
            (None, Some(_), None) => self.with(self.list.clone(), "[]"),
            (_, None, _) => self.text.to_owned(),
        }
    }

    /// Returns an ID that no other cell has.
    fn new_id(&self, seed: &[u8]) -> String {
        let start = seed.iter().take(4).fold(0_u32, |id, byte| id << 8 | u32::from(*byte));
        let ids = (0..=u32::MAX).map(|step| format!("{:08x}", start.wrapping_add(step)));
        let is_free = |id: &String| {
            self.cells.iter().all(|cell| cell.fields.id.as_ref() != Some(id))
                && self.find(id).is_none()
        };
        let mut free = ids.filter(is_free);
        free.next().unwrap_or_default()
    }

    fn with(&self, place: Range<usize>, new: &str) -> String {
        let before = self.text.get(..place.start).unwrap_or_default();
        let after = self.text.get(place.end..).unwrap_or_default();
        [before, new, after].concat()
    }

    /// Serializes a cell in the formatting of this notebook.
    fn written(&self, cell: &Value) -> String {
        let Some(indent) = self.indent() else { return cell.to_string() };
        let mut bytes = Vec::new();
        let formatter = PrettyFormatter::with_indent(indent.as_bytes());
        let mut serializer = Serializer::with_formatter(&mut bytes, formatter);
        if cell.serialize(&mut serializer).is_err() {
            return cell.to_string();
        }
        String::from_utf8_lossy(&bytes).replace('\n', &self.line(2))
    }

    /// Returns the line break and indentation at a depth; empty if the notebook is one line.
    fn line(&self, depth: usize) -> String {
        let end = if self.text.contains("\r\n") { "\r\n" } else { "\n" };
        self.indent().map_or_else(String::new, |indent| format!("{end}{}", indent.repeat(depth)))
    }

    /// Returns the indentation unit of the notebook, if it is indented.
    fn indent(&self) -> Option<&'a str> {
        let rest = self.text.trim_start().strip_prefix('{')?.trim_start_matches('\r');
        let line = rest.strip_prefix('\n')?;
        let width = line.len() - line.trim_start_matches([' ', '\t']).len();
        line.get(..width)
    }
}

impl Cell<'_> {
    pub(super) fn fields(&self) -> &Fields {
        &self.fields
    }
}

/// Returns the byte range of a part of a text.
fn place(text: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr().addr() - text.as_ptr().addr();
    start..start + part.len()
}

/// Converts a source to a list of lines, each with its line end, as notebooks store it.
fn lines(source: &str) -> Value {
    json!(source.split_inclusive('\n').collect::<Vec<_>>())
}
