//! The cache of prompts that a model's side keeps.

use serde::{Deserialize, Serialize};

/// How long an entry of the cache lives that nobody reads.
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
