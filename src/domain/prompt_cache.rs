//! The prompt cache of the model provider.

use serde::{Deserialize, Serialize};

/// The lifetime of a prompt cache entry after its last use.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    Serialize,
    Deserialize,
    clap::ValueEnum,
    utoipa::ToSchema,
)]
pub enum CacheTtl {
    /// Five minutes.
    #[default]
    #[value(name = "5m")]
    #[serde(rename = "5m")]
    FiveMinutes,
    /// An hour.
    #[value(name = "1h")]
    #[serde(rename = "1h")]
    Hour,
}
