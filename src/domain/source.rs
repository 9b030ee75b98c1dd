//! Sources: the documents that an answer cites.

use serde::{Deserialize, Serialize};

/// A source of an answer, as shown to readers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Source {
    /// The title.
    pub title: String,
    /// The address; absent when it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// Removes duplicate sources and keeps the order.
pub fn each_once(sources: impl IntoIterator<Item = Source>) -> Vec<Source> {
    let mut once: Vec<Source> = Vec::new();
    for source in sources {
        if !once.contains(&source) {
            once.push(source);
        }
    }
    once
}
