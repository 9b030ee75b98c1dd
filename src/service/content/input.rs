//! Content blocks as clients write them.
//!
//! An input block has the members of all block types, so that validation can report each wrong
//! member by its pointer.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::service::json::Object;

/// A text, or blocks.
#[derive(Debug)]
pub(crate) enum ContentInput {
    Text(String),
    Blocks(Vec<BlockInput>),
}

/// A block of any type, before validation.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BlockInput {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) text: Option<String>,
    pub(super) source: Option<SourceInput>,
    pub(super) title: Option<String>,
    pub(super) context: Option<String>,
    pub(super) citations: Option<Object<CitationsInput>>,
    pub(super) content: Option<ContentInput>,
}

/// The source of an image or a document, or the name of the source of a search result.
#[derive(Debug)]
pub(super) enum SourceInput {
    Name(String),
    Media(Box<MediaSourceInput>),
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MediaSourceInput {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) media_type: Option<String>,
    pub(super) data: Option<String>,
    pub(super) url: Option<String>,
    pub(super) file_id: Option<String>,
    pub(super) content: Option<ContentInput>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CitationsInput {
    pub(super) enabled: bool,
}

impl<'de> Deserialize<'de> for ContentInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = ContentInput;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or an array of blocks")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ContentInput, E> {
                Ok(ContentInput::Text(text.to_owned()))
            }

            fn visit_string<E: Error>(self, text: String) -> Result<ContentInput, E> {
                Ok(ContentInput::Text(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<ContentInput, A::Error> {
                let blocks: Vec<Object<BlockInput>> =
                    Deserialize::deserialize(SeqAccessDeserializer::new(seq))?;
                Ok(ContentInput::Blocks(blocks.into_iter().map(|Object(block)| block).collect()))
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl<'de> Deserialize<'de> for SourceInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = SourceInput;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object, or a string for a search result")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<SourceInput, E> {
                Ok(SourceInput::Name(name.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SourceInput, A::Error> {
                let source = Deserialize::deserialize(MapAccessDeserializer::new(map))?;
                Ok(SourceInput::Media(Box::new(source)))
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl BlockInput {
    /// The names of the members that are present, without `type`.
    pub(super) fn members(&self) -> impl Iterator<Item = &'static str> {
        let Self { kind: _, text, source, title, context, citations, content } = self;
        present([
            ("text", text.is_some()),
            ("source", source.is_some()),
            ("title", title.is_some()),
            ("context", context.is_some()),
            ("citations", citations.is_some()),
            ("content", content.is_some()),
        ])
    }
}

impl MediaSourceInput {
    /// The names of the members that are present, without `type`.
    pub(super) fn members(&self) -> impl Iterator<Item = &'static str> {
        let Self { kind: _, media_type, data, url, file_id, content } = self;
        present([
            ("media_type", media_type.is_some()),
            ("data", data.is_some()),
            ("url", url.is_some()),
            ("file_id", file_id.is_some()),
            ("content", content.is_some()),
        ])
    }
}

fn present<const N: usize>(
    members: [(&'static str, bool); N],
) -> impl Iterator<Item = &'static str> {
    members.into_iter().filter_map(|(member, is_there)| is_there.then_some(member))
}
