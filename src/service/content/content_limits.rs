//! Limits on the content of a whole session.
//!
//! The model receives the history with every request, so a message that is valid by itself can
//! exceed a limit together with the messages before it.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::parse::{MAX_IMAGES, MAX_PAGES};
use crate::domain::image::{FEW_IMAGES, MAX_SIDE_OF_MANY, decode, longer_side};
use crate::domain::pdf;
use crate::service::error::Error;
use crate::service::offload::offload;

/// Contents of at least this size are counted, in bytes; smaller ones only if they have media.
pub(crate) const LARGE: usize = 1024 * 1024;

/// The totals of the content of a session.
#[derive(Debug, Default)]
pub(crate) struct ContentTotals {
    bytes: usize,
    images: usize,
    has_large_image: bool,
    pages: usize,
    /// True if the search results are cited, by the first of them.
    cites: Option<bool>,
    /// True if some search results are cited and others are not.
    has_mixed_citations: bool,
}

#[derive(Deserialize)]
struct CountedBlock<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    source: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(default)]
    citations: Option<CountedCitations>,
}

#[derive(Deserialize)]
struct CountedCitations {
    enabled: bool,
}

#[derive(Deserialize)]
struct CountedSource<'a> {
    #[serde(borrow, default)]
    data: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

impl ContentTotals {
    /// Adds up contents, each an array of blocks.
    pub(super) fn of<'a>(
        contents: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, serde_json::Error> {
        let mut totals = Self::default();
        for content in contents {
            totals.bytes += content.len();
            totals.add_blocks(content)?;
        }
        Ok(totals)
    }

    /// Refuses new contents, given at this pointer, that exceed a limit together with those before: that of
    /// their size, which depends on the model's server, or one of all models.
    pub(crate) async fn check(
        before: Vec<String>,
        new: Vec<String>,
        (max_bytes, pointer): (usize, &str),
    ) -> Result<(), Error> {
        let bytes = before.iter().chain(&new).map(String::len).sum();
        let count = move || Self::of(before.iter().chain(&new).map(String::as_str));
        let totals = offload(bytes, count).await?.map_err(Error::internal)?;
        totals.problem(max_bytes).map_or(Ok(()), |problem| Err(Error::field(pointer, problem)))
    }

    /// The limit that the totals exceed, if any.
    pub(super) fn problem(&self, max_bytes: usize) -> Option<String> {
        if self.bytes > max_bytes {
            return Some(format!(
                "brings the messages of the session to more than {max_bytes} bytes"
            ));
        }
        if self.images + self.pages > MAX_IMAGES.max(MAX_PAGES) {
            return Some(format!(
                "brings the session to {} images and {} pages of documents; at most {MAX_IMAGES} \
                 together are allowed",
                self.images, self.pages
            ));
        }
        if self.images > FEW_IMAGES && self.has_large_image {
            return Some(format!(
                "brings the session to more than {FEW_IMAGES} images, of which none may then be \
                 larger than {MAX_SIDE_OF_MANY}x{MAX_SIDE_OF_MANY} pixels"
            ));
        }
        let mixed = "differs from the session's search results in citations: cite all or none";
        self.has_mixed_citations.then(|| mixed.to_owned())
    }

    fn add_blocks(&mut self, content: &str) -> Result<(), serde_json::Error> {
        // The result of a tool may be plain text.
        if !content.trim_start().starts_with('[') {
            return Ok(());
        }
        for block in serde_json::from_str::<Vec<CountedBlock<'_>>>(content)? {
            match block.kind.as_ref() {
                "image" => self.add_image(block.source)?,
                "document" => self.add_document(block.source)?,
                "search_result" => {
                    let cites = block.citations.is_some_and(|cites| cites.enabled);
                    self.has_mixed_citations |= *self.cites.get_or_insert(cites) != cites;
                }
                "tool_result" => self.add_blocks(block.content.map_or("", RawValue::get))?,
                _ => {}
            }
        }
        Ok(())
    }

    fn add_image(&mut self, source: Option<&RawValue>) -> Result<(), serde_json::Error> {
        self.images += 1;
        let data = source.map(parse_source).transpose()?.and_then(|source| source.data);
        let is_large = |data: Cow<'_, str>| longer_side(&data) > MAX_SIDE_OF_MANY;
        self.has_large_image |= data.is_some_and(is_large);
        Ok(())
    }

    fn add_document(&mut self, source: Option<&RawValue>) -> Result<(), serde_json::Error> {
        let Some(source) = source.map(parse_source).transpose()? else { return Ok(()) };
        let bytes = source.data.and_then(|data| decode(&data).ok()).unwrap_or_default();
        self.pages += pdf::read(&bytes).and_then(|pdf| pdf.pages).unwrap_or_default();
        self.add_blocks(source.content.map_or("", RawValue::get))
    }
}

fn parse_source(source: &RawValue) -> Result<CountedSource<'_>, serde_json::Error> {
    serde_json::from_str(source.get())
}
