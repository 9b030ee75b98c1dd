//! Validates content input and converts it to blocks, or reports every error in it.

use super::block::{Block, Citations, DocumentSource, ImageSource};
use super::image;
use super::input::{BlockInput, ContentInput, MediaSourceInput, SourceInput};
use super::url::is_https;
use crate::domain::ids::FileId;
use crate::domain::image::decode;
use crate::domain::pdf;
use crate::service::error::FieldError;

/// The largest number of images in one message.
pub(super) const MAX_IMAGES: usize = 100;
/// The largest number of pages in one document.
pub(super) const MAX_PAGES: usize = 100;
const MAX_TITLE: usize = 500;
/// The largest total text of one message, in bytes: the largest context window of a model.
pub(super) const MAX_TEXT: usize = 4 * 1024 * 1024;

/// Parsed content: its blocks, unless there are errors.
#[derive(Debug, Default)]
pub(crate) struct ParsedContent {
    /// The blocks.
    pub(crate) blocks: Vec<Block>,
    /// The errors, in the order of the members.
    pub(crate) errors: Vec<FieldError>,
}

/// The types of blocks that are allowed at one level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Allowed {
    All,
    TextAndImages,
    Text,
}

/// Parses the content at this pointer. An empty list of blocks is not an error here.
pub(crate) fn parse(input: ContentInput, pointer: &str) -> ParsedContent {
    Parser::default().parse(input, pointer)
}

/// Parses the content of a message, which may refer to uploaded files.
pub(crate) fn parse_message(input: ContentInput, pointer: &str) -> ParsedContent {
    Parser { allows_files: true, ..Parser::default() }.parse(input, pointer)
}

/// The reason why a text cannot be sent or stored.
fn text_problem(text: &str) -> Option<&'static str> {
    if text.trim().is_empty() {
        return Some("is blank");
    }
    text.contains('\0').then_some("has a NUL")
}

#[derive(Debug, Default)]
struct Parser {
    errors: Vec<FieldError>,
    images: usize,
    /// The total size of all texts, in bytes.
    text: usize,
    /// True if the search results are cited, by the first of them.
    cites: Option<bool>,
    /// True where blocks may refer to uploaded files.
    allows_files: bool,
}

impl Parser {
    fn parse(mut self, input: ContentInput, pointer: &str) -> ParsedContent {
        let blocks = self.blocks(input, pointer, Allowed::All);
        if self.images > MAX_IMAGES {
            self.refuse(pointer, format!("has more than {MAX_IMAGES} images"));
        }
        if self.text > MAX_TEXT {
            self.refuse(pointer, format!("has more than {MAX_TEXT} bytes of text"));
        }
        ParsedContent { blocks, errors: self.errors }
    }

    fn refuse(&mut self, pointer: impl Into<String>, message: impl Into<String>) {
        self.errors.push(FieldError::new(pointer, message));
    }

    fn text(&mut self, text: &str, pointer: &str) {
        self.text += text.len();
        if let Some(problem) = text_problem(text) {
            self.refuse(pointer, problem);
        }
    }

    fn blocks(&mut self, given: ContentInput, pointer: &str, allowed: Allowed) -> Vec<Block> {
        let blocks = match given {
            ContentInput::Text(text) => {
                self.text(&text, pointer);
                return vec![Block::Text { text }];
            }
            ContentInput::Blocks(blocks) => blocks,
        };
        let mut read = Vec::with_capacity(blocks.len());
        for (index, block) in blocks.into_iter().enumerate() {
            read.extend(self.block(block, &format!("{pointer}/{index}"), allowed));
        }
        read
    }

    /// The blocks inside a block; at least one is required.
    fn inner(
        &mut self,
        given: Option<ContentInput>,
        pointer: &str,
        allowed: Allowed,
    ) -> Vec<Block> {
        let allows_files = std::mem::replace(&mut self.allows_files, false);
        let blocks = given.map(|given| self.blocks(given, pointer, allowed));
        self.allows_files = allows_files;
        match blocks {
            None => self.refuse(pointer, "is missing"),
            Some(blocks) if blocks.is_empty() => self.refuse(pointer, "is empty"),
            Some(blocks) => return blocks,
        }
        Vec::new()
    }

    fn block(&mut self, mut given: BlockInput, pointer: &str, allowed: Allowed) -> Option<Block> {
        let kind = std::mem::take(&mut given.kind);
        let (known, members): (Allowed, &[&str]) = match kind.as_str() {
            "text" => (Allowed::Text, &["text"]),
            "image" => (Allowed::TextAndImages, &["source"]),
            "document" => (Allowed::All, &["source", "title", "context", "citations"]),
            "search_result" => (Allowed::All, &["source", "title", "content", "citations"]),
            _ => {
                let message = "is not text, image, document or search_result";
                self.refuse(format!("{pointer}/type"), message);
                return None;
            }
        };
        if !allowed.has(known) {
            self.refuse(format!("{pointer}/type"), "is not allowed here");
            return None;
        }
        for member in given.members().filter(|member| !members.contains(member)) {
            self.refuse(format!("{pointer}/{member}"), format!("is not a member of {kind} blocks"));
        }
        match kind.as_str() {
            "text" => self.text_block(given, pointer),
            "image" => self.image(given.source, &format!("{pointer}/source")),
            "document" => self.document(given, pointer),
            _ => self.search_result(given, pointer),
        }
    }

    fn text_block(&mut self, given: BlockInput, pointer: &str) -> Option<Block> {
        let text = self.required(given.text, format!("{pointer}/text"))?;
        Some(Block::Text { text })
    }

    /// A required text that is not blank.
    fn required(&mut self, text: Option<String>, pointer: String) -> Option<String> {
        match &text {
            Some(text) => self.text(text, &pointer),
            None => self.refuse(pointer, "is missing"),
        }
        text
    }

    fn image(&mut self, source: Option<SourceInput>, pointer: &str) -> Option<Block> {
        self.images += 1;
        let media = self.media_source(source, pointer)?;
        let source = match media.kind.as_str() {
            "base64" => {
                self.only(&media, &["media_type", "data"], pointer);
                let (media_type, data) = self.data(media, pointer)?;
                if let Err((member, message)) = image::check(&media_type, &data) {
                    self.refuse(format!("{pointer}/{member}"), message);
                }
                ImageSource::Base64 { media_type, data }
            }
            "url" => ImageSource::Url { url: self.url(media, pointer)? },
            "file" => ImageSource::File { file_id: self.file(&media, pointer)? },
            _ => {
                self.refuse(format!("{pointer}/type"), "is not base64, url or file");
                return None;
            }
        };
        Some(Block::Image { source })
    }

    fn document(&mut self, given: BlockInput, pointer: &str) -> Option<Block> {
        let BlockInput { source, title, context, citations, .. } = given;
        if let Some(title) = &title {
            self.title(title, &format!("{pointer}/title"));
        }
        if let Some(context) = &context {
            self.text(context, &format!("{pointer}/context"));
        }
        let pointer = format!("{pointer}/source");
        let media = self.media_source(source, &pointer)?;
        let source = self.document_source(media, &pointer)?;
        let citations = citations.map(|citations| Citations { enabled: citations.0.enabled });
        Some(Block::Document { source, title, context, citations })
    }

    fn document_source(
        &mut self,
        media: MediaSourceInput,
        pointer: &str,
    ) -> Option<DocumentSource> {
        Some(match media.kind.as_str() {
            "base64" => {
                self.only(&media, &["media_type", "data"], pointer);
                let (media_type, data) = self.data(media, pointer)?;
                self.pdf(&media_type, &data, pointer);
                DocumentSource::Base64 { media_type, data }
            }
            "text" => {
                self.only(&media, &["media_type", "data"], pointer);
                let (media_type, data) = self.data(media, pointer)?;
                if media_type != "text/plain" {
                    self.refuse(format!("{pointer}/media_type"), "is not text/plain");
                }
                self.text(&data, &format!("{pointer}/data"));
                DocumentSource::Text { media_type, data }
            }
            "content" => {
                self.only(&media, &["content"], pointer);
                let pointer = format!("{pointer}/content");
                let content = self.inner(media.content, &pointer, Allowed::TextAndImages);
                DocumentSource::Content { content }
            }
            "url" => DocumentSource::Url { url: self.url(media, pointer)? },
            "file" => DocumentSource::File { file_id: self.file(&media, pointer)? },
            _ => {
                self.refuse(format!("{pointer}/type"), "is not base64, text, content, url or file");
                return None;
            }
        })
    }

    fn pdf(&mut self, media_type: &str, data: &str, pointer: &str) {
        if media_type != "application/pdf" {
            return self.refuse(format!("{pointer}/media_type"), "is not application/pdf");
        }
        let pointer = format!("{pointer}/data");
        let bytes = match decode(data) {
            Ok(bytes) => bytes,
            Err(message) => return self.refuse(pointer, message),
        };
        match pdf::read(&bytes) {
            None => self.refuse(pointer, "is not a PDF"),
            Some(pdf) if pdf.is_encrypted => self.refuse(pointer, "is an encrypted PDF"),
            Some(pdf) if pdf.pages.is_some_and(|pages| pages > MAX_PAGES) => {
                self.refuse(pointer, format!("has more than {MAX_PAGES} pages"));
            }
            Some(_) => {}
        }
    }

    fn search_result(&mut self, given: BlockInput, pointer: &str) -> Option<Block> {
        let BlockInput { source, title, citations, content, .. } = given;
        let at = |member: &str| format!("{pointer}/{member}");
        let source = match source {
            Some(SourceInput::Media(_)) => {
                self.refuse(at("source"), "is not a string");
                None
            }
            Some(SourceInput::Name(source)) => self.required(Some(source), at("source")),
            None => self.required(None, at("source")),
        };
        let title = self.required(title, at("title"));
        let content = self.inner(content, &at("content"), Allowed::Text);
        let citations = citations.map(|citations| Citations { enabled: citations.0.enabled });
        let cites = citations.is_some_and(|citations| citations.enabled);
        if *self.cites.get_or_insert(cites) != cites {
            let message = "differs from the search results before it: cite all of them, or none";
            self.refuse(at("citations"), message);
        }
        Some(Block::SearchResult { source: source?, title: title?, content, citations })
    }

    fn title(&mut self, title: &str, pointer: &str) {
        self.text(title, pointer);
        if title.chars().count() > MAX_TITLE {
            self.refuse(pointer, format!("has more than {MAX_TITLE} characters"));
        }
    }

    fn media_source(
        &mut self,
        source: Option<SourceInput>,
        pointer: &str,
    ) -> Option<MediaSourceInput> {
        match source {
            Some(SourceInput::Media(source)) => return Some(*source),
            Some(SourceInput::Name(_)) => self.refuse(pointer, "is not an object"),
            None => self.refuse(pointer, "is missing"),
        }
        None
    }

    /// Refuses members that sources of this type do not have.
    fn only(&mut self, media: &MediaSourceInput, members: &[&str], pointer: &str) {
        for member in media.members().filter(|member| !members.contains(member)) {
            let message = format!("is not a member of {} sources", media.kind);
            self.refuse(format!("{pointer}/{member}"), message);
        }
    }

    fn data(&mut self, media: MediaSourceInput, pointer: &str) -> Option<(String, String)> {
        for (member, value) in [("media_type", &media.media_type), ("data", &media.data)] {
            if value.is_none() {
                self.refuse(format!("{pointer}/{member}"), "is missing");
            }
        }
        media.media_type.zip(media.data)
    }

    fn file(&mut self, media: &MediaSourceInput, pointer: &str) -> Option<FileId> {
        self.only(media, &["file_id"], pointer);
        if !self.allows_files {
            self.refuse(format!("{pointer}/type"), "is file, which is allowed in messages only");
            return None;
        }
        let id = media.file_id.as_deref().and_then(|id| id.parse().ok());
        if id.is_none() {
            self.refuse(format!("{pointer}/file_id"), "is not the id of a file");
        }
        id
    }

    fn url(&mut self, media: MediaSourceInput, pointer: &str) -> Option<String> {
        self.only(&media, &["url"], pointer);
        let pointer = format!("{pointer}/url");
        let url = self.required(media.url, pointer.clone())?;
        if !is_https(&url) {
            self.refuse(pointer, "is not an https URL");
        }
        Some(url)
    }
}

impl Allowed {
    fn has(self, kind: Self) -> bool {
        match self {
            Self::All => true,
            Self::TextAndImages => kind != Self::All,
            Self::Text => kind == Self::Text,
        }
    }
}
