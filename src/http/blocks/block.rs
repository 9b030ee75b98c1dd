//! Blocks in the one form in which they are stored and sent.

use serde::Serialize;

// The shape of `Given`, which reads it.
/// A text, or blocks.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it is only shown")]
pub(in crate::http) enum GivenContent {
    /// One text.
    Text(String),
    /// Blocks.
    Blocks(Vec<Block>),
}

/// A block that a client may send.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(in crate::http) enum Block {
    /// A text that is not blank.
    Text {
        /// The text.
        #[schema(pattern = r"\S")]
        text: String,
    },
    /// An image: JPEG, PNG, GIF or WebP, at most 8000 pixels wide and high.
    Image {
        /// Where it is.
        source: ImageSource,
    },
    /// A document.
    Document {
        /// Where it is.
        source: DocumentSource,
        /// Its title, for the model; 1 to 500 characters.
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// What the model is told of it, which cannot be cited.
        #[serde(skip_serializing_if = "Option::is_none")]
        context: Option<String>,
        /// Whether the model cites it.
        #[serde(skip_serializing_if = "Option::is_none")]
        citations: Option<Citations>,
    },
    /// Something that a search has found.
    SearchResult {
        /// Where it was found.
        source: String,
        /// Its title.
        title: String,
        /// Text blocks, one or more.
        #[schema(value_type = Vec<Object>)]
        content: Vec<Block>,
        /// Whether the model cites it: for all search results of a session, or for none.
        #[serde(skip_serializing_if = "Option::is_none")]
        citations: Option<Citations>,
    },
}

/// Where an image is.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(in crate::http) enum ImageSource {
    /// Here.
    Base64 {
        /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
        media_type: String,
        /// The bytes in base64, at most 10 MB of it.
        data: String,
    },
    /// Where the model's side fetches it.
    Url {
        /// An `https` URL.
        url: String,
    },
}

/// Where a document is.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(in crate::http) enum DocumentSource {
    /// A PDF, here.
    Base64 {
        /// `application/pdf`.
        media_type: String,
        /// The bytes in base64.
        data: String,
    },
    /// A plain text, here.
    Text {
        /// `text/plain`.
        media_type: String,
        /// The text.
        data: String,
    },
    /// Blocks of text and images, here.
    Content {
        /// The blocks, one or more.
        #[schema(value_type = Vec<Object>)]
        content: Vec<Block>,
    },
    /// A PDF that the model's side fetches.
    Url {
        /// An `https` URL.
        url: String,
    },
}

/// Whether the model cites a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct Citations {
    /// Whether it does.
    pub(super) enabled: bool,
}

impl Block {
    /// The text of a block of text.
    pub(in crate::http) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            Self::Image { .. } | Self::Document { .. } | Self::SearchResult { .. } => None,
        }
    }

    /// Whether it is anything but a text.
    pub(in crate::http) const fn is_media(&self) -> bool {
        !matches!(self, Self::Text { .. })
    }
}
