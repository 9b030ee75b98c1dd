//! Results of calls, and planned changes of files.

use serde::Serialize;

use super::error::ToolError;
use crate::domain::image::Image;
use crate::domain::source::Source;
use crate::domain::state_change::StateChange;

/// The result of a tool: the text and the images for the model, and the state changes and sources
/// that the session stores.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Output {
    /// The text that the model reads.
    pub text: String,
    /// The images that the model receives after the text, which names each of them.
    pub images: Vec<Image>,
    /// State changes that are stored in the same transaction as the result.
    pub state_changes: Vec<StateChange>,
    /// The sources of the result, shown to users together with the model's answer.
    pub sources: Vec<Source>,
}

impl Output {
    /// Serializes a value as JSON.
    pub fn json<T: Serialize>(value: &T) -> Result<Self, ToolError> {
        serde_json::to_string(value)
            .map(Self::from)
            .map_err(|error| ToolError::Failed(format!("the result cannot be serialized: {error}")))
    }

    /// Adds a state change.
    #[must_use]
    pub fn with_state_change(mut self, change: StateChange) -> Self {
        self.state_changes.push(change);
        self
    }

    /// Sets the images.
    #[must_use]
    pub fn with_images(mut self, images: Vec<Image>) -> Self {
        self.images = images;
        self
    }

    /// Sets the sources.
    #[must_use]
    pub fn with_sources(mut self, sources: Vec<Source>) -> Self {
        self.sources = sources;
        self
    }
}

impl From<String> for Output {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

/// A planned change of one file. It is made only if the file still has the content that the plan
/// expects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The normalized path of the file, relative to the workspace.
    pub path: String,
    /// The SHA-256 of the file before the change. `None` if the file does not exist.
    pub before: Option<Vec<u8>>,
    /// The complete content of the file after the change.
    pub content: Vec<u8>,
    /// The text that the model reads after the change.
    pub result: String,
}
