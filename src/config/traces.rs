//! Export of traces.

use anyhow::Context as _;
use clap::Args;
use reqwest::Url;

/// Options for the export of traces.
#[derive(Debug, Clone, Args)]
pub struct TraceArgs {
    /// Collector of traces, by OTLP over HTTP, such as `http://127.0.0.1:4318`; its headers are read
    /// from `OTEL_EXPORTER_OTLP_HEADERS` [default: none]
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<String>,
}

impl TraceArgs {
    /// The URL of the collector, if one is configured. Other programs read the same variable; an
    /// empty value means no collector.
    pub(super) fn collector(self) -> anyhow::Result<Option<Url>> {
        let endpoint = self.otlp_endpoint.filter(|url| !url.trim().is_empty());
        let parse = |url: String| {
            url.trim().parse().with_context(|| format!("--otlp-endpoint {url:?} is not a URL"))
        };
        endpoint.map(parse).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_endpoint_means_no_collector_and_an_invalid_url_is_named() {
        let collector =
            |url: Option<&str>| TraceArgs { otlp_endpoint: url.map(str::to_owned) }.collector();
        assert_eq!(collector(None).unwrap(), None);
        assert_eq!(collector(Some(" ")).unwrap(), None);
        let url = "http://127.0.0.1:4318".parse().unwrap();
        assert_eq!(collector(Some("http://127.0.0.1:4318")).unwrap(), Some(url));
        let refused = collector(Some("/v1/traces")).unwrap_err().to_string();
        assert_eq!(refused, "--otlp-endpoint \"/v1/traces\" is not a URL");
    }
}
