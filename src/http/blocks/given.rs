//! Blocks as clients write them: every member that some block has, so that whatever is wrong can be
//! pointed at.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::http::extract::json_body::Object;

/// A text, or blocks.
#[derive(Debug)]
pub(in crate::http) enum Given {
    Text(String),
    Blocks(Vec<GivenBlock>),
}

/// A block with all that it might be.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct GivenBlock {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) text: Option<String>,
    pub(super) source: Option<GivenSource>,
    pub(super) title: Option<String>,
    pub(super) context: Option<String>,
    pub(super) citations: Option<Object<GivenCitations>>,
    pub(super) content: Option<Given>,
}

/// The place of an image or a document, or the name of where something was found.
#[derive(Debug)]
pub(super) enum GivenSource {
    Name(String),
    Place(Box<GivenPlace>),
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GivenPlace {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) media_type: Option<String>,
    pub(super) data: Option<String>,
    pub(super) url: Option<String>,
    pub(super) content: Option<Given>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GivenCitations {
    pub(super) enabled: bool,
}

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Given;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or an array of blocks")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Given, E> {
                Ok(Given::Text(text.to_owned()))
            }

            fn visit_string<E: Error>(self, text: String) -> Result<Given, E> {
                Ok(Given::Text(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Given, A::Error> {
                let blocks: Vec<Object<GivenBlock>> =
                    Deserialize::deserialize(SeqAccessDeserializer::new(seq))?;
                Ok(Given::Blocks(blocks.into_iter().map(|Object(block)| block).collect()))
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl<'de> Deserialize<'de> for GivenSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = GivenSource;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object, or a string for a search result")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<GivenSource, E> {
                Ok(GivenSource::Name(name.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<GivenSource, A::Error> {
                let place = Deserialize::deserialize(MapAccessDeserializer::new(map))?;
                Ok(GivenSource::Place(Box::new(place)))
            }
        }

        deserializer.deserialize_any(Either)
    }
}
