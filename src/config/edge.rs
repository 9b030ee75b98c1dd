//! Limits for clients, and the access rules for browsers.

use std::sync::Arc;

use anyhow::bail;
use clap::{Args, ValueEnum};
use http::HeaderValue;
use reqwest::Url;

use super::args::Auth;
use crate::http::BrowserPolicy;

/// The page at `/app/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Page {
    /// Served to every caller; it needs a key for the API where the API needs one
    On,
    /// Not served
    Off,
}

/// Options that limit clients.
#[derive(Debug, Clone, Args)]
pub struct EdgeArgs {
    /// Maximum number of open streams of the process; further streams are rejected with 503
    #[arg(long, env = "TWOSTEP_MAX_STREAMS", default_value_t = 10_000, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_streams: u32,
    /// Maximum number of open streams of one API key, in each process
    #[arg(long, env = "TWOSTEP_MAX_STREAMS_PER_KEY", default_value_t = 2000, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_streams_per_key: u32,
    /// Maximum number of requests of one API key per minute, in each process; 0 for no limit
    #[arg(long, env = "TWOSTEP_RATE_LIMIT", default_value_t = 0, value_name = "N",
          value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub rate_limit: u32,
    /// The page for people at `/app/`
    #[arg(long, env = "TWOSTEP_PAGE", value_enum, default_value = "on")]
    pub page: Page,
    /// Origins whose pages may use the API from a browser (CORS), such as `https://app.example`
    /// [default: none]
    #[arg(long, env = "TWOSTEP_CORS_ORIGINS", value_delimiter = ',', value_name = "ORIGINS")]
    pub cors_origins: Option<Vec<String>>,
    /// Host names that requests may use in addition to IP addresses and `localhost`
    /// [default: none with `--auth open`, otherwise all]
    #[arg(long, env = "TWOSTEP_ALLOWED_HOSTS", value_delimiter = ',', value_name = "HOSTS")]
    pub allowed_hosts: Option<Vec<String>>,
}

impl EdgeArgs {
    /// The access rules for web pages. With `--auth keys` a page without a key has no access, so
    /// that other origins need not be rejected.
    pub(super) fn browser_policy(&self, auth: Auth) -> anyhow::Result<BrowserPolicy> {
        let origins = items(self.cors_origins.as_deref()).map(origin);
        let hosts: Vec<String> =
            items(self.allowed_hosts.as_deref()).map(host).collect::<anyhow::Result<_>>()?;
        let needs_names = auth == Auth::Open || !hosts.is_empty();
        Ok(BrowserPolicy {
            origins: origins.collect::<anyhow::Result<Vec<_>>>()?.into(),
            hosts: needs_names.then(|| Arc::from(hosts)),
            checks_port: auth == Auth::Open,
            // Known when the address is bound.
            port: 0,
            refuses_other_origins: auth != Auth::Keys,
        })
    }
}

/// The items of a list without empty ones: an empty variable is an empty list.
fn items(list: Option<&[String]>) -> impl Iterator<Item = &str> {
    list.unwrap_or_default().iter().map(|word| word.trim()).filter(|word| !word.is_empty())
}

fn origin(text: &str) -> anyhow::Result<HeaderValue> {
    let url = Url::parse(text).ok().filter(|url| ["http", "https"].contains(&url.scheme()));
    let whole = url.map(|url| url.origin().ascii_serialization());
    if whole.as_deref() != Some(text) || text.contains('*') {
        bail!(
            "--cors-origins names {text:?}, which is not an origin as browsers write it, such as \
             https://app.example or http://localhost:3000"
        );
    }
    Ok(HeaderValue::from_str(text)?)
}

fn host(text: &str) -> anyhow::Result<String> {
    if text.contains(['/', ':', '*', '@']) {
        bail!("--allowed-hosts names {text:?}, which is not a host name without a port");
    }
    Ok(text.trim_end_matches('.').to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(origins: &[&str], hosts: &[&str]) -> EdgeArgs {
        let list = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
        EdgeArgs {
            max_streams: 1,
            max_streams_per_key: 1,
            rate_limit: 0,
            page: Page::On,
            cors_origins: list(origins),
            allowed_hosts: list(hosts),
        }
    }

    #[test]
    fn an_origin_is_accepted_only_in_the_form_that_browsers_send() {
        let good = ["https://app.example", "http://localhost:3000", "http://[::1]:8080"];
        let policy = edge(&good, &[]).browser_policy(Auth::Keys).unwrap();
        assert_eq!(*policy.origins, good.map(HeaderValue::from_static));
        for bad in [
            "*",
            "null",
            "app.example",
            "https://app.example/",
            "https://App.example",
            "https://app.example:443",
            "https://*.example",
            "ftp://app.example",
            "https://app.example, https://other.example",
        ] {
            assert!(edge(&[bad], &[]).browser_policy(Auth::Keys).is_err(), "{bad}");
        }
        assert!(edge(&[""], &[" "]).browser_policy(Auth::Keys).unwrap().origins.is_empty());
    }

    #[test]
    fn host_names_are_checked_without_keys_or_if_a_list_is_configured() {
        let hosts = |names: &[&str], auth| {
            let policy = edge(&[], names).browser_policy(auth).unwrap();
            (policy.hosts.map(|hosts| hosts.to_vec()), policy.refuses_other_origins)
        };
        let names = || Some(vec!["twostep.example".to_owned()]);
        assert_eq!(hosts(&[], Auth::Keys), (None, false));
        assert_eq!(hosts(&[], Auth::Open), (Some(vec![]), true));
        assert_eq!(hosts(&[], Auth::OpenToAll), (None, true));
        for (auth, refuses) in [(Auth::Keys, false), (Auth::Open, true), (Auth::OpenToAll, true)] {
            assert_eq!(hosts(&["Twostep.example."], auth), (names(), refuses));
        }
        for bad in ["http://twostep.example", "twostep.example:8080", "*"] {
            assert!(edge(&[], &[bad]).browser_policy(Auth::Keys).is_err(), "{bad}");
        }
    }
}
