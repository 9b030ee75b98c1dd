//! Where traces are sent.

use clap::Args;
use reqwest::Url;

/// Options of traces.
#[derive(Debug, Clone, Args)]
pub struct TraceArgs {
    /// The collector of traces, by OTLP over HTTP, such as `http://127.0.0.1:4318`; headers for it
    /// are taken from `OTEL_EXPORTER_OTLP_HEADERS` [default: none]
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<Url>,
}
