//! Deserialization of enums that are strings on the wire.

use serde::de::IntoDeserializer as _;
use serde::{Deserialize, Deserializer};

/// Deserializes a string enum. Without this, serde reports every value that is not a string as a
/// syntax error.
pub fn string_enum<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(String::deserialize(deserializer)?.into_deserializer())
}

/// Deserializes a string enum or null, where an absent member has another meaning than null.
pub fn nullable_string_enum<'de, T, D>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    optional_string_enum(deserializer).map(Some)
}

/// Deserializes an optional string enum.
pub fn optional_string_enum<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let word = Option::<String>::deserialize(deserializer)?;
    word.map(|word| T::deserialize(word.into_deserializer())).transpose()
}
