//! What stands between clients and the API.

use clap::Args;

/// Options of what clients may hold and do.
#[derive(Debug, Clone, Args)]
pub struct EdgeArgs {
    /// Streams held at a time; others are refused
    #[arg(long, env = "TWOSTEP_MAX_STREAMS", default_value_t = 10_000, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_streams: u32,
    /// Streams that one key may hold at a time, at each process
    #[arg(long, env = "TWOSTEP_MAX_STREAMS_PER_KEY", default_value_t = 200, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_streams_per_key: u32,
}
