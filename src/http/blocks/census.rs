//! What a whole conversation may hold: the model counts everything that it is sent again, so that a
//! message which is right by itself may be one too many.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::image::{decode, longer_side};
use super::pdf;
use super::read::{MAX_IMAGES, MAX_PAGES};
use crate::http::error::ApiError;
use crate::http::offload::offload;

/// Contents of this size and more are counted, in bytes; smaller ones only if they have media.
pub(in crate::http) const LARGE: usize = 1024 * 1024;
/// What the messages of clients may come to, in bytes: the model takes requests of 32 MB, and there
/// are its own replies, the tools and the system prompt as well.
const MAX_BYTES: usize = 30_000_000;
/// Images up to this number may have their full size.
const FEW_IMAGES: usize = 20;
/// The longer side of each of many images, in pixels.
const MAX_SIDE_OF_MANY: usize = 2000;

/// What a conversation holds.
#[derive(Debug, Default)]
pub(in crate::http) struct Census {
    bytes: usize,
    images: usize,
    has_large_image: bool,
    pages: usize,
    /// Whether its search results are cited, and whether they disagree on it.
    cites: Option<bool>,
    disagrees: bool,
}

#[derive(Deserialize)]
struct Counted<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    source: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(default)]
    citations: Option<Cites>,
}

#[derive(Deserialize)]
struct Cites {
    enabled: bool,
}

#[derive(Deserialize)]
struct Source<'a> {
    #[serde(borrow, default)]
    data: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

impl Census {
    /// Counts what these contents hold together, each an array of blocks.
    pub(super) fn of<'a>(
        contents: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, serde_json::Error> {
        let mut census = Self::default();
        for content in contents {
            census.bytes += content.len();
            census.blocks(content)?;
        }
        Ok(census)
    }

    /// Refuses new contents, given at this pointer, that are too much together with those before.
    pub(in crate::http) async fn check(
        before: Vec<String>,
        new: Vec<String>,
        pointer: &str,
    ) -> Result<(), ApiError> {
        let bytes = before.iter().chain(&new).map(String::len).sum();
        let count = move || Self::of(before.iter().chain(&new).map(String::as_str));
        let census = offload(bytes, count).await?;
        let census = census.map_err(|error| ApiError::Internal(error.to_string()))?;
        census.problem().map_or(Ok(()), |problem| Err(ApiError::field(pointer, problem)))
    }

    /// Why the model would not take it.
    pub(super) fn problem(&self) -> Option<String> {
        if self.bytes > MAX_BYTES {
            return Some(format!("makes the messages of the session more than {MAX_BYTES} bytes"));
        }
        if self.images + self.pages > MAX_IMAGES.max(MAX_PAGES) {
            return Some(format!(
                "makes {} images and {} pages of documents in the session; {MAX_IMAGES} together \
                 is the most",
                self.images, self.pages
            ));
        }
        if self.images > FEW_IMAGES && self.has_large_image {
            return Some(format!(
                "makes more than {FEW_IMAGES} images in the session, of which none may then be \
                 larger than {MAX_SIDE_OF_MANY}x{MAX_SIDE_OF_MANY} pixels"
            ));
        }
        let disagrees = "disagrees with the session's search results on citations: all or none";
        self.disagrees.then(|| disagrees.to_owned())
    }

    fn blocks(&mut self, content: &str) -> Result<(), serde_json::Error> {
        // A result of a tool may be a plain text.
        if !content.trim_start().starts_with('[') {
            return Ok(());
        }
        for block in serde_json::from_str::<Vec<Counted<'_>>>(content)? {
            match block.kind.as_ref() {
                "image" => self.image(block.source)?,
                "document" => self.document(block.source)?,
                "search_result" => {
                    let cites = block.citations.is_some_and(|cites| cites.enabled);
                    self.disagrees |= *self.cites.get_or_insert(cites) != cites;
                }
                "tool_result" => self.blocks(block.content.map_or("", RawValue::get))?,
                _ => {}
            }
        }
        Ok(())
    }

    fn image(&mut self, source: Option<&RawValue>) -> Result<(), serde_json::Error> {
        self.images += 1;
        let data = source.map(read).transpose()?.and_then(|source| source.data);
        let is_large = |data: Cow<'_, str>| longer_side(&data) > MAX_SIDE_OF_MANY;
        self.has_large_image |= data.is_some_and(is_large);
        Ok(())
    }

    fn document(&mut self, source: Option<&RawValue>) -> Result<(), serde_json::Error> {
        let Some(source) = source.map(read).transpose()? else { return Ok(()) };
        let bytes = source.data.and_then(|data| decode(&data).ok()).unwrap_or_default();
        self.pages += pdf::read(&bytes).and_then(|pdf| pdf.pages).unwrap_or_default();
        self.blocks(source.content.map_or("", RawValue::get))
    }
}

fn read(source: &RawValue) -> Result<Source<'_>, serde_json::Error> {
    serde_json::from_str(source.get())
}
