//! The examples of `samples.json`: one for each schema and each problem code.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The content of `samples.json`.
#[derive(Deserialize)]
pub(super) struct Samples {
    /// Problems by code.
    pub(super) problems: BTreeMap<String, Problem>,
    /// Bodies by the name of their schema.
    schemas: Map<String, Value>,
    /// Bodies that are not JSON, by media type.
    texts: Map<String, Value>,
}

/// An example of a problem.
#[derive(Deserialize)]
pub(super) struct Problem {
    pub(super) status: u16,
    pub(super) detail: String,
    /// The members besides those of all problems.
    #[serde(default)]
    pub(super) members: Map<String, Value>,
}

impl Samples {
    pub(super) fn read() -> Self {
        #[expect(
            clippy::expect_used,
            reason = "the file is part of the binary and is parsed by tests"
        )]
        serde_json::from_str(include_str!("samples.json")).expect("samples.json is well formed")
    }

    /// The example of a schema, or of a page of its items.
    pub(super) fn of(&self, schema: &str) -> Option<Value> {
        match schema.strip_prefix("Page_") {
            Some(item) => Some(json!({ "data": [self.schemas.get(item)?], "has_more": false })),
            None => self.schemas.get(schema).cloned(),
        }
    }

    /// The example of a body that is not JSON.
    pub(super) fn text(&self, media_type: &str) -> Option<Value> {
        self.texts.get(media_type).cloned()
    }
}
