//! What answers rest on.

use serde::{Deserialize, Serialize};

/// Something that an answer rests on, as readers are shown it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Source {
    /// What to call it.
    pub title: String,
    /// Where it is; absent where nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// Sources in their order, each once.
pub fn each_once(sources: impl IntoIterator<Item = Source>) -> Vec<Source> {
    let mut once: Vec<Source> = Vec::new();
    for source in sources {
        if !once.contains(&source) {
            once.push(source);
        }
    }
    once
}
