//! Content blocks in the form in which they are stored and sent.

use serde::Serialize;

use crate::domain::ids::FileId;

// The schema of `ContentInput`, which parses it.
/// A text, or blocks.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only the OpenAPI document uses it")]
#[schema(as = GivenContent)]
pub(crate) enum InputContent {
    /// One text.
    Text(String),
    /// Blocks.
    Blocks(Vec<Block>),
}

/// A block that a client may send.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Block {
    /// Text, not blank.
    Text {
        /// The text.
        #[schema(pattern = r"\S")]
        text: String,
    },
    /// An image: JPEG, PNG, GIF or WebP, at most 8000 pixels wide and high.
    Image {
        /// The source of the image.
        source: ImageSource,
    },
    /// A document.
    Document {
        /// The source of the document.
        source: DocumentSource,
        /// The title, which the model sees; 1 to 500 characters.
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// Context about the document for the model; it cannot be cited.
        #[serde(skip_serializing_if = "Option::is_none")]
        context: Option<String>,
        /// True if the model cites the document.
        #[serde(skip_serializing_if = "Option::is_none")]
        citations: Option<Citations>,
    },
    /// A search result.
    SearchResult {
        /// The source of the result, such as a URL.
        source: String,
        /// The title.
        title: String,
        /// Text blocks, one or more.
        #[schema(value_type = Vec<Object>)]
        content: Vec<Block>,
        /// True if the model cites the result; the same for all search results of a session.
        #[serde(skip_serializing_if = "Option::is_none")]
        citations: Option<Citations>,
    },
}

/// The source of an image.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ImageSource {
    /// Inline data.
    Base64 {
        /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
        media_type: String,
        /// The image in base64; at most 10 MB of base64.
        data: String,
    },
    /// A URL that the model provider fetches.
    Url {
        /// An `https` URL.
        url: String,
    },
    /// An uploaded image.
    File {
        /// The id of the file.
        #[schema(value_type = String)]
        file_id: FileId,
    },
}

/// The source of a document.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum DocumentSource {
    /// An inline PDF.
    Base64 {
        /// `application/pdf`.
        media_type: String,
        /// The document in base64.
        data: String,
    },
    /// Inline plain text.
    Text {
        /// `text/plain`.
        media_type: String,
        /// The text.
        data: String,
    },
    /// Inline text and image blocks.
    Content {
        /// The blocks, one or more.
        #[schema(value_type = Vec<Object>)]
        content: Vec<Block>,
    },
    /// A PDF that the model provider fetches.
    Url {
        /// An `https` URL.
        url: String,
    },
    /// An uploaded PDF or text.
    File {
        /// The id of the file.
        #[schema(value_type = String)]
        file_id: FileId,
    },
}

/// True if the model cites a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(crate) struct Citations {
    /// True if citations are enabled.
    pub(super) enabled: bool,
}

impl Block {
    /// The text of a text block.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            Self::Image { .. } | Self::Document { .. } | Self::SearchResult { .. } => None,
        }
    }

    /// Returns true if this is an image, a document or a search result.
    pub(crate) const fn is_media(&self) -> bool {
        !matches!(self, Self::Text { .. })
    }
}
