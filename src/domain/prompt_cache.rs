//! The cache of prompts that a model's side keeps.

/// How long an entry of the cache lives that nobody reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum CacheTtl {
    /// Five minutes.
    #[default]
    #[value(name = "5m")]
    FiveMinutes,
    /// An hour.
    #[value(name = "1h")]
    Hour,
}
