//! System prompts as clients write them.

use std::fmt;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::to_raw_value;

use crate::domain::string_enum::string_enum;
use crate::domain::system::SystemPrompt;
use crate::service::error::{Error, FieldError};
use crate::service::json::objects;

/// A system prompt: a string or an array of text blocks. The service places the cache breakpoints.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(untagged)]
pub(crate) enum SessionSystem {
    /// A string.
    Text(String),
    /// Text blocks.
    Blocks(Vec<SystemBlock>),
}

/// A text block of a system prompt.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SystemBlock {
    /// `text`.
    #[serde(deserialize_with = "string_enum")]
    r#type: SystemBlockType,
    /// The text.
    text: String,
}

#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum SystemBlockType {
    Text,
}

/// Implemented by hand because an untagged enum would lose the pointer to an invalid member.
impl<'de> Deserialize<'de> for SessionSystem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrBlocks;

        impl<'de> Visitor<'de> for TextOrBlocks {
            type Value = SessionSystem;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or an array of text blocks")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<SessionSystem, E> {
                Ok(SessionSystem::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, blocks: A) -> Result<SessionSystem, A::Error> {
                objects(SeqAccessDeserializer::new(blocks)).map(SessionSystem::Blocks)
            }
        }

        deserializer.deserialize_any(TextOrBlocks)
    }
}

impl SessionSystem {
    /// The members that are not valid.
    pub(super) fn problems(&self) -> Vec<FieldError> {
        match self {
            Self::Text(_) => Vec::new(),
            Self::Blocks(blocks) if blocks.is_empty() => {
                vec![FieldError::new("/system", "is empty")]
            }
            Self::Blocks(blocks) => blocks
                .iter()
                .enumerate()
                .filter(|(_, block)| block.text.trim().is_empty())
                .map(|(index, _)| FieldError::new(format!("/system/{index}/text"), "is blank"))
                .collect(),
        }
    }

    /// The pinned form.
    pub(super) fn into_prompt(self) -> Result<SystemPrompt, Error> {
        match self {
            Self::Text(text) => Ok(text.into()),
            Self::Blocks(blocks) => {
                to_raw_value(&blocks).map(SystemPrompt::from_blocks).map_err(Error::internal)
            }
        }
    }
}
