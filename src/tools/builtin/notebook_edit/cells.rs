//! The cells of a notebook and their positions in its text. A change of one cell preserves the
//! bytes of all other cells and of the rest of the file.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::CellType;
use crate::tools::error::ToolError;

/// A notebook in nbformat 4.
#[derive(Debug)]
pub(super) struct Notebook<'a> {
    text: &'a str,
    /// The byte range of the list of cells.
    list: Range<usize>,
    pub(super) cells: Vec<Cell<'a>>,
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
        Ok(Self {
            text,
            list: place(text, whole.cells.get()),
            cells: cells.collect::<Result<_, String>>()?,
            has_ids: whole.nbformat_minor >= 5,
        })
    }

    /// Returns the index of a cell by its ID, or by its number if the notebook has no IDs.
    pub(super) fn find(&self, id: &str) -> Option<usize> {
        (0..self.cells.len()).find(|place| self.name(*place) == id)
    }

    /// Returns the name of a cell: its ID or its number.
    pub(super) fn name(&self, place: usize) -> String {
        let id = self.cells.get(place).and_then(|cell| cell.fields.id.clone());
        id.unwrap_or_else(|| format!("cell-{place}"))
    }

    /// Returns the names of all cells.
    pub(super) fn names(&self) -> String {
        let names: Vec<String> = (0..self.cells.len()).map(|place| self.name(place)).collect();
        names.join(", ")
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

    /// Returns the text with a new cell after the given one or at the top, and the name of the new
    /// cell.
    pub(super) fn inserted(
        &self,
        behind: Option<usize>,
        kind: CellType,
        source: &str,
        seed: &[u8],
    ) -> (String, String) {
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
        let number = behind.map_or(0, |place| place + 1);
        (text, if self.has_ids { id } else { format!("cell-{number}") })
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
        let mut free = ids.filter(|id| self.find(id).is_none());
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
