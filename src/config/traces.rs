//! Export of traces.

use std::collections::HashMap;

use anyhow::Context as _;
use clap::Args;
use reqwest::Url;

use super::environment::{file_variable, secret, variable};

/// The variable with the headers of the collector, which the library reads.
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";

/// A collector of traces.
#[derive(Debug, Clone)]
pub struct Collector {
    /// Its URL.
    pub url: Url,
    /// The headers of a file, in addition to those of the variable.
    pub headers: HashMap<String, String>,
}

/// Options for the export of traces.
#[derive(Debug, Clone, Args)]
pub struct TraceArgs {
    /// Collector of traces, by OTLP over HTTP, such as `http://127.0.0.1:4318`; its headers are read
    /// from `OTEL_EXPORTER_OTLP_HEADERS` [default: none]
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<String>,
}

impl TraceArgs {
    /// The collector, if one is configured.
    pub(super) fn collector(self) -> anyhow::Result<Option<Collector>> {
        let Some(url) = self.url()? else { return Ok(None) };
        let text = match variable(&file_variable(HEADERS)) {
            Some(_) => secret(HEADERS)?.unwrap_or_default(),
            None => String::new(),
        };
        Ok(Some(Collector { url, headers: headers(&text) }))
    }

    /// The URL of the collector, if one is configured. Other programs read the same variable; an
    /// empty value means no collector.
    fn url(self) -> anyhow::Result<Option<Url>> {
        let endpoint = self.otlp_endpoint.filter(|url| !url.trim().is_empty());
        let parse = |url: String| {
            url.trim().parse().with_context(|| format!("--otlp-endpoint {url:?} is not a URL"))
        };
        endpoint.map(parse).transpose()
    }
}

/// Parses headers: `name=value` pairs, separated by commas, which the library decodes.
fn headers(text: &str) -> HashMap<String, String> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_a_file_are_pairs() {
        let expected = HashMap::from([
            ("a".to_owned(), "b%20c".to_owned()),
            ("d".to_owned(), "e=".to_owned()),
        ]);
        assert_eq!(headers("a=b%20c, d = e="), expected);
        assert_eq!(headers(""), HashMap::new());
    }

    #[test]
    fn an_empty_endpoint_means_no_collector_and_an_invalid_url_is_named() {
        let collector =
            |url: Option<&str>| TraceArgs { otlp_endpoint: url.map(str::to_owned) }.url();
        assert_eq!(collector(None).unwrap(), None);
        assert_eq!(collector(Some(" ")).unwrap(), None);
        let url = "http://127.0.0.1:4318".parse().unwrap();
        assert_eq!(collector(Some("http://127.0.0.1:4318")).unwrap(), Some(url));
        let refused = collector(Some("/v1/traces")).unwrap_err().to_string();
        assert_eq!(refused, "--otlp-endpoint \"/v1/traces\" is not a URL");
    }
}
