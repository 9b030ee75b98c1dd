//! Words: values of enums that are texts.

use serde::de::IntoDeserializer as _;
use serde::{Deserialize, Deserializer};

/// Reads a word of an enum. The enum itself takes every value that is no string for broken JSON.
pub fn word<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(String::deserialize(deserializer)?.into_deserializer())
}

/// Reads a word of an enum, or none.
pub fn words<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let word = Option::<String>::deserialize(deserializer)?;
    word.map(|word| T::deserialize(word.into_deserializer())).transpose()
}
