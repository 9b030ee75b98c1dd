//! System prompts as sessions are given them.

use std::fmt;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::to_raw_value;

use crate::domain::system::SystemPrompt;
use crate::domain::word::word;
use crate::http::error::{ApiError, FieldError};
use crate::http::extract::json_body::objects;

/// A system prompt: one text, or blocks of text. Cache marks are the service's to place.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(untagged)]
pub(in crate::http) enum SessionSystem {
    /// One text.
    Text(String),
    /// Blocks of text.
    Blocks(Vec<SystemBlock>),
}

/// A block of a system prompt.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct SystemBlock {
    /// `text`.
    #[serde(deserialize_with = "word")]
    r#type: SystemBlockType,
    /// The text.
    text: String,
}

#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum SystemBlockType {
    Text,
}

/// By hand, so that a wrong member of a block is pointed at.
impl<'de> Deserialize<'de> for SessionSystem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = SessionSystem;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or an array of text blocks")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<SessionSystem, E> {
                Ok(SessionSystem::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, blocks: A) -> Result<SessionSystem, A::Error> {
                objects(SeqAccessDeserializer::new(blocks)).map(SessionSystem::Blocks)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl SessionSystem {
    /// What is wrong with it.
    pub(in crate::http) fn problems(&self) -> Vec<FieldError> {
        let error =
            |pointer: String, message: &str| FieldError { pointer, message: message.into() };
        match self {
            Self::Text(_) => Vec::new(),
            Self::Blocks(blocks) if blocks.is_empty() => {
                vec![error("/system".to_owned(), "is empty")]
            }
            Self::Blocks(blocks) => blocks
                .iter()
                .enumerate()
                .filter(|(_, block)| block.text.trim().is_empty())
                .map(|(index, _)| error(format!("/system/{index}/text"), "is blank"))
                .collect(),
        }
    }

    /// The prompt in the form in which it is pinned.
    pub(in crate::http) fn into_prompt(self) -> Result<SystemPrompt, ApiError> {
        match self {
            Self::Text(text) => Ok(text.into()),
            Self::Blocks(blocks) => to_raw_value(&blocks)
                .map(SystemPrompt::from_blocks)
                .map_err(|error| ApiError::Internal(error.to_string())),
        }
    }
}
