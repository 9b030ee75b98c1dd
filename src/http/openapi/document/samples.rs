//! What examples are made of: a file of them, one for each schema and each code of problems.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The file.
#[derive(Deserialize)]
pub(super) struct Samples {
    /// By code.
    pub(super) problems: BTreeMap<String, Problem>,
    /// By the name of the schema.
    schemas: Map<String, Value>,
    /// What is no JSON document, by its media type.
    texts: Map<String, Value>,
}

/// A problem as it may be.
#[derive(Deserialize)]
pub(super) struct Problem {
    pub(super) status: u16,
    pub(super) detail: String,
    /// What it has beside what all have.
    #[serde(default)]
    pub(super) members: Map<String, Value>,
}

impl Samples {
    pub(super) fn read() -> Self {
        #[expect(clippy::expect_used, reason = "the file is a part of the program, and tested")]
        serde_json::from_str(include_str!("samples.json")).expect("samples.json is well formed")
    }

    /// An example of a schema, or of a page of it.
    pub(super) fn of(&self, schema: &str) -> Option<Value> {
        match schema.strip_prefix("Page_") {
            Some(item) => Some(json!({ "data": [self.schemas.get(item)?], "has_more": false })),
            None => self.schemas.get(schema).cloned(),
        }
    }

    /// An example of a text.
    pub(super) fn text(&self, media_type: &str) -> Option<Value> {
        self.texts.get(media_type).cloned()
    }
}
