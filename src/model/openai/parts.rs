//! Converts content blocks to the texts and images of this protocol.

use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::json;
use serde_json::value::RawValue;

use crate::domain::sent_history::BlockPosition;

/// A part of a user's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Text(String),
    /// An image.
    Image(Image),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Image {
    /// The URL, which may be a data URL with the image itself.
    pub(super) url: String,
    /// The position of the image in the history.
    pub(super) position: BlockPosition,
}

impl Part {
    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Image(_) => None,
        }
    }
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        match self {
            Self::Text(text) => {
                map.serialize_entry("type", "text")?;
                map.serialize_entry("text", text)?;
            }
            Self::Image(Image { url, .. }) => {
                map.serialize_entry("type", "image_url")?;
                map.serialize_entry("image_url", &json!({ "url": url }))?;
            }
        }
        map.end()
    }
}

/// A block that a user's message or a tool result may contain.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum UserBlock {
    Text {
        text: String,
    },
    Image {
        source: MediaSource,
    },
    Document {
        source: MediaSource,
        #[serde(default)]
        title: Option<String>,
        #[serde(default)]
        context: Option<String>,
    },
    SearchResult {
        source: String,
        title: String,
        content: TextOrBlocks,
    },
    #[serde(other)]
    Other,
}

/// The source of an image or a document.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum MediaSource {
    Base64 {
        media_type: String,
        data: String,
    },
    Url {
        url: String,
    },
    Text {
        data: String,
    },
    Content {
        content: TextOrBlocks,
    },
    #[serde(other)]
    Other,
}

impl MediaSource {
    /// The URL of an image.
    fn url(self) -> Option<String> {
        match self {
            Self::Base64 { media_type, data } => Some(format!("data:{media_type};base64,{data}")),
            Self::Url { url } => Some(url),
            Self::Text { .. } | Self::Content { .. } | Self::Other => None,
        }
    }
}

/// A text or a list of blocks.
#[derive(Default, Deserialize)]
#[serde(untagged)]
enum TextOrBlocks {
    #[default]
    Nothing,
    Text(String),
    Blocks(Vec<UserBlock>),
}

/// Converts a block of the user; `None` if the protocol cannot express it. Without a position,
/// images are replaced by a text.
pub(super) fn part(raw: &RawValue, position: Option<BlockPosition>) -> Option<Part> {
    serde_json::from_str::<UserBlock>(raw.get()).ok()?.part(position)
}

/// The text of a compaction summary, if the block is one.
pub(super) fn summary(raw: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(tag = "type", rename_all = "snake_case")]
    enum Summary {
        Compaction {
            content: String,
        },
        #[serde(other)]
        Other,
    }
    match serde_json::from_str(raw.get()).ok()? {
        Summary::Compaction { content } => {
            Some(format!("Summary of the conversation so far:\n\n{content}"))
        }
        Summary::Other => None,
    }
}

/// Converts the content of a tool result. Without a position, images are replaced by a text.
pub(super) fn result_parts(raw: &RawValue, position: Option<BlockPosition>) -> Vec<Part> {
    #[derive(Deserialize)]
    struct ToolResult {
        #[serde(default)]
        content: TextOrBlocks,
    }
    let result = serde_json::from_str::<ToolResult>(raw.get());
    result.map(|result| result.content.parts(position)).unwrap_or_default()
}

impl TextOrBlocks {
    fn parts(self, position: Option<BlockPosition>) -> Vec<Part> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Text(text) => vec![Part::Text(text)],
            Self::Blocks(blocks) => {
                let at =
                    |part| position.map(|position| BlockPosition { part: Some(part), ..position });
                let blocks = blocks.into_iter().enumerate();
                blocks.filter_map(|(part, block)| block.part(at(part))).collect()
            }
        }
    }

    fn text(self) -> String {
        let parts = self.parts(None);
        parts.iter().filter_map(Part::as_text).collect::<Vec<_>>().join("\n")
    }
}

impl UserBlock {
    fn part(self, position: Option<BlockPosition>) -> Option<Part> {
        Some(match self {
            Self::Text { text } => Part::Text(text),
            Self::Image { source } => match (source.url(), position) {
                (Some(url), Some(position)) => Part::Image(Image { url, position }),
                _ => Part::Text("[an image that cannot be shown here]".to_owned()),
            },
            Self::Document { source, title, context } => {
                Part::Text(document(source, title, context))
            }
            Self::SearchResult { source, title, content } => Part::Text(format!(
                "Search result: {title}\nSource: {source}\n\n{}",
                content.text()
            )),
            Self::Other => return None,
        })
    }
}

fn document(source: MediaSource, title: Option<String>, context: Option<String>) -> String {
    let title = title.map(|title| format!("Document: {title}\n"));
    let context = context.map(|context| format!("Context: {context}\n"));
    let text = match source {
        MediaSource::Text { data } => data,
        MediaSource::Content { content } => content.text(),
        MediaSource::Url { url } => format!("[a document that cannot be shown here: {url}]"),
        MediaSource::Base64 { .. } | MediaSource::Other => {
            "[a document that cannot be shown here]".to_owned()
        }
    };
    let head: String = title.into_iter().chain(context).collect();
    if head.is_empty() { text } else { format!("{head}\n{text}") }
}
